package main

//go:wasmimport env proxy_log
func log(level, p, s uint32) uint32

//go:wasmimport env proxy_get_log_level
func getLogLevel(r uint32) uint32

//go:wasmimport env proxy_get_status
func getStatus(code, rp, rs uint32) uint32

//go:wasmimport env proxy_get_property
func getProperty(p, s, rp, rs uint32) uint32

//go:wasmimport env proxy_set_property
func setProperty(kp, ks, vp, vs uint32) uint32

//go:wasmimport env proxy_get_header_map_value
func getHeader(m, kp, ks, rp, rs uint32) uint32

//go:wasmimport env proxy_add_header_map_value
func addHeader(m, kp, ks, vp, vs uint32) uint32

//go:wasmimport env proxy_replace_header_map_value
func replaceHeader(m, kp, ks, vp, vs uint32) uint32

//go:wasmimport env proxy_remove_header_map_value
func removeHeader(m, kp, ks uint32) uint32

//go:wasmimport env proxy_get_header_map_pairs
func getPairs(m, rp, rs uint32) uint32

//go:wasmimport env proxy_set_header_map_pairs
func setPairs(m, p, s uint32) uint32

//go:wasmimport env proxy_get_header_map_size
func getHeaderSize(m, r uint32) uint32

//go:wasmimport env proxy_get_buffer_bytes
func getBuffer(t, start, length, rp, rs uint32) uint32

//go:wasmimport env proxy_get_buffer_status
func getBufferStatus(t, length, flags uint32) uint32

//go:wasmimport env proxy_set_buffer_bytes
func setBuffer(t, start, length, p, s uint32) uint32

//go:wasmimport env proxy_continue_stream
func continueStream(t uint32) uint32

//go:wasmimport env proxy_close_stream
func closeStream(t uint32) uint32

//go:wasmimport env proxy_send_local_response
func reply(code, dp, ds, bp, bs, hp, hs, grpc uint32) uint32

//go:wasmimport env proxy_get_shared_data
func getData(kp, ks, rp, rs, cas uint32) uint32

//go:wasmimport env proxy_set_shared_data
func setData(kp, ks, vp, vs, cas uint32) uint32

//go:wasmimport env proxy_register_shared_queue
func registerQueue(np, ns, r uint32) uint32

//go:wasmimport env proxy_resolve_shared_queue
func resolveQueue(vp, vs, np, ns, r uint32) uint32

//go:wasmimport env proxy_enqueue_shared_queue
func enqueue(id, p, s uint32) uint32

//go:wasmimport env proxy_dequeue_shared_queue
func dequeue(id, rp, rs uint32) uint32

//go:wasmimport env proxy_set_tick_period_milliseconds
func setTick(ms uint32) uint32

//go:wasmimport env proxy_get_current_time_nanoseconds
func currentTime(r uint32) uint32

//go:wasmimport env proxy_set_effective_context
func setEffective(id uint32) uint32

//go:wasmimport env proxy_done
func done() uint32

//go:wasmimport env proxy_define_metric
func defineMetric(t, np, ns, r uint32) uint32

//go:wasmimport env proxy_increment_metric
func incrementMetric(id uint32, delta int64) uint32

//go:wasmimport env proxy_record_metric
func recordMetric(id uint32, value uint64) uint32

//go:wasmimport env proxy_get_metric
func getMetric(id, r uint32) uint32

//go:wasmimport env proxy_http_call
func httpCall(up, us, hp, hs, bp, bs, tp, ts, timeout, r uint32) uint32

//go:wasmimport env proxy_call_foreign_function
func foreign(np, ns, ap, as, rp, rs uint32) uint32

//go:wasmimport wasi_snapshot_preview1 clock_time_get
func clock(id uint32, precision uint64, r uint32) uint32

//go:wasmimport wasi_snapshot_preview1 random_get
func random(p, n uint32) uint32

//go:wasmimport wasi_snapshot_preview1 proc_exit
func exit(code uint32)
