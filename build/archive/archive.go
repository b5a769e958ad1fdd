// Package archive writes archives whose bytes depend on what is in them and on nothing else: no owner, no clock, no
// order of a folder.
package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"time"
)

// A File is one entry. A folder's name ends with a slash.
type File struct {
	Name string
	Mode int64
	Data []byte
}

// Tar is a tar archive of the files, in their order, with one time for all.
func Tar(files []File, modified time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: f.Name, Mode: f.Mode, Size: int64(len(f.Data)),
			ModTime: modified, Format: tar.FormatUSTAR,
		}
		if f.Name[len(f.Name)-1] == '/' {
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.Data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// WriteTarGz writes what Tar returns, compressed.
func WriteTarGz(w io.Writer, files []File, modified time.Time) error {
	text, err := Tar(files, modified)
	if err != nil {
		return err
	}
	compressed, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := compressed.Write(text); err != nil {
		return err
	}
	return compressed.Close()
}
