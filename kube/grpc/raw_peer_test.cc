// The raw peer of rpc_harness.h.
#include <fcntl.h>
#include <nghttp2/nghttp2.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "kube/grpc/rpc_harness.h"

namespace ghostfleet::kube::grpc {

struct RawCallbacks {
  static RawPeer& self(void* user) { return *static_cast<RawPeer*>(user); }

  static int header(nghttp2_session*, const nghttp2_frame* frame, const uint8_t* name, size_t name_size,
                    const uint8_t* value, size_t value_size, uint8_t, void* user) {
    RawStream& stream = self(user).streams_[frame->hd.stream_id];
    auto& into = frame->headers.cat == NGHTTP2_HCAT_RESPONSE ? stream.headers : stream.trailers;
    into[std::string(reinterpret_cast<const char*>(name), name_size)] =
        std::string(reinterpret_cast<const char*>(value), value_size);
    return 0;
  }
  static int data(nghttp2_session*, uint8_t, int32_t id, const uint8_t* data, size_t size, void* user) {
    self(user).streams_[id].body.append(reinterpret_cast<const char*>(data), size);
    return 0;
  }
  static int closed(nghttp2_session*, int32_t id, uint32_t error, void* user) {
    self(user).streams_[id].closed = true;
    self(user).streams_[id].error = error;
    return 0;
  }
  static ssize_t read(nghttp2_session*, int32_t id, uint8_t* out, size_t size, uint32_t* flags, nghttp2_data_source*,
                      void* user) {
    std::string& rest = self(user).pending_[id];
    if (rest.empty() && !self(user).ended_[id]) return NGHTTP2_ERR_DEFERRED;
    const size_t n = std::min(size, rest.size());
    std::memcpy(out, rest.data(), n);
    rest.erase(0, n);
    if (rest.empty() && self(user).ended_[id]) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return static_cast<ssize_t>(n);
  }
};

RawPeer::RawPeer(const std::string& path, uint32_t window) : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  if (::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) close();
  if (fd_ >= 0) ::fcntl(fd_, F_SETFL, O_NONBLOCK);
  nghttp2_session_callbacks* callbacks = nullptr;
  nghttp2_session_callbacks_new(&callbacks);
  nghttp2_session_callbacks_set_on_header_callback(callbacks, RawCallbacks::header);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, RawCallbacks::data);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, RawCallbacks::closed);
  nghttp2_option* option = nullptr;
  nghttp2_option_new(&option);
  nghttp2_option_set_no_auto_window_update(option, 1);  // what is not consumed stays closed: a peer that never reads
  nghttp2_session_client_new2(&session_, callbacks, this, option);
  nghttp2_option_del(option);
  nghttp2_session_callbacks_del(callbacks);
  const nghttp2_settings_entry settings = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window};
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, &settings, 1);
}

RawPeer::~RawPeer() {
  close();
  nghttp2_session_del(session_);
}

int32_t RawPeer::open(const std::string& method, const std::map<std::string, std::string>& headers) {
  std::map<std::string, std::string> all = {{":method", "POST"}, {":scheme", "http"},
                                            {":path", method},   {":authority", "localhost"},
                                            {"te", "trailers"},  {"content-type", "application/grpc"}};
  for (const auto& [name, value] : headers) all[name] = value;
  std::vector<nghttp2_nv> block;
  for (const auto& [name, value] : all) {
    if (value.empty()) continue;
    block.push_back({reinterpret_cast<uint8_t*>(const_cast<char*>(name.data())),
                     reinterpret_cast<uint8_t*>(const_cast<char*>(value.data())), name.size(), value.size(),
                     NGHTTP2_NV_FLAG_NONE});
  }
  nghttp2_data_provider provider{};
  provider.read_callback = RawCallbacks::read;
  const int32_t id = nghttp2_submit_request(session_, nullptr, block.data(), block.size(), &provider, nullptr);
  pending_[id];
  return id;
}

void RawPeer::send(int32_t stream, std::string_view bytes, bool last) {
  pending_[stream].append(bytes);
  ended_[stream] = last;
  nghttp2_session_resume_data(session_, stream);
}

void RawPeer::reset(int32_t stream, uint32_t error) {
  nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream, error);
}

void RawPeer::send_raw(std::string_view bytes) {
  pump();
  out_.append(bytes);
  pump();
}

void RawPeer::pump() {
  if (fd_ < 0) return;
  const uint8_t* data = nullptr;
  for (ssize_t n = 0; (n = nghttp2_session_mem_send(session_, &data)) > 0;) {
    out_.append(reinterpret_cast<const char*>(data), static_cast<size_t>(n));
  }
  const ssize_t sent = ::send(fd_, out_.data(), out_.size(), MSG_NOSIGNAL);
  if (sent > 0) out_.erase(0, static_cast<size_t>(sent));
  char buffer[16384];
  ssize_t n = 0;
  while ((n = ::recv(fd_, buffer, sizeof buffer, 0)) > 0) {
    nghttp2_session_mem_recv(session_, reinterpret_cast<const uint8_t*>(buffer), static_cast<size_t>(n));
  }
  if (n == 0 || (n < 0 && errno != EAGAIN)) close();
}

void RawPeer::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

}  // namespace ghostfleet::kube::grpc
