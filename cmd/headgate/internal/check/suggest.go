package check

import "strings"

// nearest returns the word that differs least from what was written, or "" if none is near.
func nearest(written string, words []string) string {
	if len(written) > 64 {
		return ""
	}
	best, least := "", 1+max(1, len(written)/3)
	for _, word := range words {
		d := distance(plain(written), plain(word))
		if d < least && d < len(word) {
			best, least = word, d
		}
	}
	return best
}

// plain returns a name without what only its spelling has: maxWait and max-wait are max_wait.
func plain(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(name))
}

// distance returns how many letters must be changed, added, left out or swapped with their neighbour to make b of a.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			changed := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				changed++
			}
			least := min(changed, rows[i-1][j]+1, rows[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				least = min(least, rows[i-2][j-2]+1)
			}
			rows[i][j] = least
		}
	}
	return rows[len(a)][len(b)]
}
