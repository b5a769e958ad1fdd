package request_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/request"
)

// envoysFlags are the response flags of Envoy 1.40, in the order of CoreResponseFlag, and those that are the client's.
var envoysFlags = []struct {
	name   string
	client bool
}{
	{"FailedLocalHealthCheck", false},
	{"NoHealthyUpstream", false},
	{"UpstreamRequestTimeout", false},
	{"LocalReset", false},
	{"UpstreamRemoteReset", false},
	{"UpstreamConnectionFailure", false},
	{"UpstreamConnectionTermination", false},
	{"UpstreamOverflow", false},
	{"NoRouteFound", false},
	{"DelayInjected", false},
	{"FaultInjected", false},
	{"RateLimited", false},
	{"UnauthorizedExternalService", false},
	{"RateLimitServiceError", false},
	{"DownstreamConnectionTermination", true},
	{"UpstreamRetryLimitExceeded", false},
	{"StreamIdleTimeout", true},
	{"InvalidEnvoyRequestHeaders", false},
	{"DownstreamProtocolError", true},
	{"UpstreamMaxStreamDurationReached", false},
	{"ResponseFromCacheFilter", false},
	{"NoFilterConfigFound", false},
	{"DurationTimeout", true},
	{"UpstreamProtocolError", false},
	{"NoClusterFound", false},
	{"OverloadManager", false},
	{"DnsResolutionFailed", false},
	{"DropOverLoad", false},
	{"DownstreamRemoteReset", true},
	{"UnconditionalDropOverload", false},
}

func TestCauseOfEveryFlag(t *testing.T) {
	require.Equal(t, admission.CauseUnknown, request.CauseOfFlags(0))
	for bit, f := range envoysFlags {
		want := admission.CauseUnknown
		if f.client {
			want = admission.CauseClient
		}
		require.Equal(t, want, request.CauseOfFlags(1<<bit), f.name)
		require.Equal(t, admission.CauseClient, request.CauseOfFlags(1<<bit|1<<14), "%s and the client's end", f.name)
	}
}

// envoysDetails are the response code details that Envoy 1.40 knows, by the cause that they tell of.
var envoysDetails = map[admission.Cause]string{
	admission.CauseUnknown: `
via_upstream`,
	admission.CauseReset: `
upstream_reset_before_response_started{connection_termination}
upstream_reset_before_response_started{remote_reset}
upstream_reset_before_response_started{remote_refused_stream_reset}
upstream_reset_before_response_started{remote_error_with_CONNECT_request}
upstream_reset_after_response_started{connection_termination}
upstream_reset_after_response_started{remote_reset}
upstream_reset_after_response_started{remote_refused_stream_reset}`,
	admission.CauseProvider: `
response_timeout
upstream_response_timeout
upstream_per_try_timeout
upstream_per_try_idle_timeout
upstream_max_stream_duration_reached
upstream_reset_before_response_started{local_reset}
upstream_reset_before_response_started{local_refused_stream_reset}
upstream_reset_before_response_started{protocol_error}
upstream_reset_before_response_started{http1_premature_upstream_half_close}
upstream_reset_after_response_started{protocol_error}
upstream_reset_after_response_started{TLS_error:|33554464:system_library:OPENSSL_internal}`,
	admission.CauseUnreachable: `
upstream_reset_before_response_started{remote_connection_failure|delayed_connect_error:_Connection_refused}
upstream_reset_before_response_started{remote_connection_failure|TLS_error:|268435581:SSL_routines:OPENSSL_internal:CERTIFICATE_VERIFY_FAILED}
upstream_reset_before_response_started{local_connection_failure}
upstream_reset_before_response_started{connection_timeout}`,
	admission.CauseClient: `
codec_error:The_user_callback_function_failed
codec_error:http/1.1_protocol_error:_HPE_INVALID_CHUNK_SIZE
downstream_header_timeout
downstream_local_disconnect(http2_ping_timeout)
downstream_local_disconnect(transport_socket_timeout)
downstream_remote_disconnect
duration_timeout
early_connect_data
http1.body_disallowed
http1.codec_error
http1.content_length_and_chunked_not_allowed
http1.headers_too_large
http1.invalid_characters
http1.invalid_transfer_encoding
http1.too_many_headers
http1.unexpected_underscore
http2.inbound_empty_frames_flood
http2.invalid.header.field
http2.outbound_frames_flood
http2.remote_refuse
http2.remote_reset
http2.too_many_headers
http2.unexpected_underscore
http2.unknown.nghttp2.error
http2.violation.of.messaging.rule
http3.inconsistent_content_length
http3.too_many_trailers
max_duration_timeout
request_header_timeout
request_overall_timeout
stream_idle_timeout`,
	admission.CauseProxy: `
absolute_path_rejected
admin_filter_response
cluster_not_found
direct_response
drop_overload
ext_authz_denied
fault_filter_abort
filter_added_invalid_request_data
filter_added_invalid_response_data
filter_chain_not_found
filter_removed_required_request_headers
filter_removed_required_response_headers
internal_redirect
invalid_path
jwt_authn_access_denied{Jwt_is_missing}
low_version
maintenance_mode
missing_host_header
missing_path_rejected
no_healthy_upstream
overload
path_normalization_failed
rbac_access_denied_matched_policy[none]
rejecting_because_detection_failed
request_headers_failed_strict_check
request_payload_exceeded_retry_buffer_limit
request_payload_too_large
request_rate_limited
response_payload_too_large
route_configuration_not_found
route_not_found
unconditional_drop_overload
upgrade_failed
upstream_reset_before_response_started{overflow}
upstream_reset_before_response_started{overload_manager_reset}
upstream_reset_after_response_started{overload_manager_reset}
wasm_fail_stream
websocket_handshake_unsuccessful`,
}

func TestCauseOfEveryDetail(t *testing.T) {
	require.Equal(t, admission.CauseUnknown, request.CauseOfDetails(""))
	require.Equal(t, admission.CauseProxy, request.CauseOfDetails("what another filter says"))
	for cause, all := range envoysDetails {
		for _, details := range strings.Split(strings.TrimSpace(all), "\n") {
			require.Equal(t, cause, request.CauseOfDetails(details), details)
		}
	}
}
