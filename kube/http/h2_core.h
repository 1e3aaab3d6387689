// H2Core: an nghttp2 session of a server with our settings, fed and pulled without a socket. (The client's side has its
// own framing: h2_client.cc.)
//
// Settings that matter: closed streams are not kept (295 KB a connection otherwise), window updates are ours (nothing
// is granted that was not consumed), and streams reset faster than kResetRate end the connection (rapid reset,
// CVE-2023-44487).
// Thread rule: one owner. feed() and pull() are never called from inside a callback of the session.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

struct nghttp2_session;
struct nghttp2_session_callbacks;

namespace ghostfleet::kube::http {

inline constexpr std::string_view kH2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
inline constexpr uint64_t kResetBurst = 2000, kResetRate = 200;  // streams reset by the peer: at once, and a second

class H2Core {
 public:
  H2Core() = default;
  ~H2Core();
  H2Core(const H2Core&) = delete;
  H2Core& operator=(const H2Core&) = delete;

  // `callbacks` are taken and freed. `owner` is handed to them.
  void open(nghttp2_session_callbacks* callbacks, void* owner);
  // Our SETTINGS and the connection's window.
  void announce(uint32_t max_streams, uint32_t stream_window, uint32_t connection_window, uint32_t max_header_bytes);
  Status feed(std::string_view bytes);
  void pull(std::string* out, size_t limit);
  bool finished() const;
  void go_away(uint32_t error_code);
  void ping();
  void reset_stream(int32_t stream, uint32_t error_code);
  nghttp2_session* session() const { return session_; }

 private:
  nghttp2_session* session_ = nullptr;
};

// "REFUSED_STREAM", "INTERNAL_ERROR".
const char* h2_error_name(uint32_t code);

}  // namespace ghostfleet::kube::http
