// The client's side of HTTP/2, on nghttp2. A request's headers and body stay in the call's own memory; nghttp2 is told
// not to copy them.
#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "kube/http/client_session.h"
#include "kube/http/h2_core.h"

namespace ghostfleet::kube::http {
namespace {

constexpr uint32_t kStreamWindow = 4u << 20;
constexpr uint32_t kConnectionWindow = 64u << 20;
constexpr size_t kMaxHeaderBytes = 256 * 1024;
constexpr uint32_t kMaxAnnouncedHeaders = 256 * 1024;

nghttp2_nv header(std::string_view name, std::string_view value) {
  return {reinterpret_cast<uint8_t*>(const_cast<char*>(name.data())),
          reinterpret_cast<uint8_t*>(const_cast<char*>(value.data())), name.size(), value.size(),
          NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
}

std::string_view view_of(const uint8_t* data, size_t size) {
  return std::string_view(reinterpret_cast<const char*>(data), size);
}

class H2ClientSession final : public ClientSession {
 public:
  H2ClientSession(const ClientSessionConfig* config, ClientSessionEvents* events);

  Status feed(std::string_view bytes) override { return core_.feed(bytes); }
  void pull(std::string* out, size_t limit) override { core_.pull(out, limit); }
  size_t room() const override { return draining_ || calls_.size() >= capacity() ? 0 : capacity() - calls_.size(); }
  size_t capacity() const override { return std::min(config_->max_streams, remote_max_); }
  bool submit(ClientCall* call) override;
  void cancel(ClientCall* call) override;
  bool draining() const override { return draining_; }
  bool ping() override {
    core_.ping();
    return true;
  }
  void go_away() override { core_.go_away(NGHTTP2_NO_ERROR); }
  void fail_all(const Status& why) override;

 private:
  friend struct ClientCallbacks;
  void on_frame(const nghttp2_frame& frame);
  void on_close(ClientCall& call, uint32_t error_code);
  void end(ClientCall& call);

  const ClientSessionConfig* config_;
  ClientSessionEvents* events_;
  H2Core core_;
  CallList calls_;
  uint32_t remote_max_ = 100;
  bool draining_ = false;
  std::vector<nghttp2_nv> block_;
  // of the header block being read: blocks never interleave
  HeaderList headers_;
  int status_ = 0;
  size_t header_bytes_ = 0;
};

struct ClientCallbacks {
  static H2ClientSession& self(void* user) { return *static_cast<H2ClientSession*>(user); }
  static ClientCall* call(nghttp2_session* session, int32_t id) {
    return static_cast<ClientCall*>(nghttp2_session_get_stream_user_data(session, id));
  }

  static int begin_headers(nghttp2_session*, const nghttp2_frame*, void* user) {
    self(user).headers_.clear();
    self(user).status_ = 0;
    self(user).header_bytes_ = 0;
    return 0;
  }

  static int header(nghttp2_session*, const nghttp2_frame*, const uint8_t* name, size_t name_size, const uint8_t* value,
                    size_t value_size, uint8_t, void* user) {
    H2ClientSession& s = self(user);
    s.header_bytes_ += name_size + value_size;
    if (s.header_bytes_ > kMaxHeaderBytes) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    const std::string_view v = view_of(value, value_size);
    if (name_size > 0 && name[0] == ':') {
      std::from_chars(v.data(), v.data() + v.size(), s.status_);
    } else {
      s.headers_.append(view_of(name, name_size), v);
    }
    return 0;
  }

  static int data(nghttp2_session* session, uint8_t, int32_t id, const uint8_t* data, size_t size, void* user) {
    ClientCall* c = call(session, id);
    if (c && c->handler && !c->ended) self(user).events_->on_body(c, view_of(data, size));
    nghttp2_session_consume(session, id, size);
    return 0;
  }

  static int frame_recv(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    self(user).on_frame(*frame);
    return 0;
  }

  static int stream_close(nghttp2_session* session, int32_t id, uint32_t error_code, void* user) {
    if (ClientCall* c = call(session, id)) self(user).on_close(*c, error_code);
    return 0;
  }

  static ssize_t read(nghttp2_session*, int32_t, uint8_t* out, size_t size, uint32_t* flags,
                      nghttp2_data_source* source, void*) {
    auto& c = *static_cast<ClientCall*>(source->ptr);
    const std::string_view rest = c.body().substr(c.body_sent);
    const size_t n = std::min(size, rest.size());
    std::memcpy(out, rest.data(), n);
    c.body_sent += static_cast<uint32_t>(n);
    if (n == rest.size()) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return static_cast<ssize_t>(n);
  }

  static nghttp2_session_callbacks* make() {
    nghttp2_session_callbacks* c = nullptr;
    nghttp2_session_callbacks_new(&c);
    nghttp2_session_callbacks_set_on_begin_headers_callback(c, begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(c, header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(c, data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(c, frame_recv);
    nghttp2_session_callbacks_set_on_stream_close_callback(c, stream_close);
    return c;
  }
};

H2ClientSession::H2ClientSession(const ClientSessionConfig* config, ClientSessionEvents* events)
    : config_(config), events_(events) {
  core_.open(false, ClientCallbacks::make(), this);
  core_.announce(0, kStreamWindow, kConnectionWindow, kMaxAnnouncedHeaders, false);
}

bool H2ClientSession::submit(ClientCall* call) {
  block_.clear();
  block_.push_back(header(":method", call->method()));
  block_.push_back(header(":scheme", config_->scheme));
  block_.push_back(header(":authority", config_->authority));
  block_.push_back(header(":path", call->target()));
  for (const auto& [name, value] : config_->default_headers) block_.push_back(header(name, value));
  const std::string_view memory = call->memory;
  size_t at = call->method_size + call->target_size;
  for (const auto& [name_size, value_size] : call->header_sizes) {
    block_.push_back(header(memory.substr(at, name_size), memory.substr(at + name_size, value_size)));
    at += name_size + value_size;
  }
  char digits[12];
  if (call->body_size > 0) {
    const auto end = std::to_chars(digits, digits + sizeof digits, call->body_size).ptr;
    nghttp2_nv length = header("content-length", std::string_view(digits, static_cast<size_t>(end - digits)));
    length.flags = NGHTTP2_NV_FLAG_NO_COPY_NAME;
    block_.push_back(length);
  }
  nghttp2_data_provider provider{};
  provider.source.ptr = call;
  provider.read_callback = ClientCallbacks::read;
  const int32_t id = nghttp2_submit_request(core_.session(), nullptr, block_.data(), block_.size(),
                                            call->body_size > 0 ? &provider : nullptr, call);
  if (id < 0) {
    draining_ = true;  // stream numbers are used up
    return false;
  }
  call->stream = id;
  calls_.push_back(call);
  return true;
}

void H2ClientSession::cancel(ClientCall* call) { core_.reset_stream(call->stream, NGHTTP2_CANCEL); }

void H2ClientSession::on_frame(const nghttp2_frame& frame) {
  if (frame.hd.type == NGHTTP2_SETTINGS && (frame.hd.flags & NGHTTP2_FLAG_ACK) == 0) {
    remote_max_ = nghttp2_session_get_remote_settings(core_.session(), NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
    return;
  }
  if (frame.hd.type == NGHTTP2_GOAWAY) draining_ = true;
  if (frame.hd.type != NGHTTP2_HEADERS && frame.hd.type != NGHTTP2_DATA) return;
  ClientCall* call = ClientCallbacks::call(core_.session(), frame.hd.stream_id);
  if (!call) return;
  const bool last = (frame.hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
  if (frame.hd.type == NGHTTP2_HEADERS && !call->head_seen && status_ >= 200) {
    call->head_seen = true;
    if (call->handler) events_->on_head(call, status_, headers_);
  } else if (frame.hd.type == NGHTTP2_HEADERS && last && call->head_seen && !call->ended && call->handler) {
    events_->on_trailers(call, headers_);
  }
  if (last) end(*call);
}

void H2ClientSession::end(ClientCall& call) {
  if (call.ended) return;
  call.ended = true;
  if (call.handler) events_->on_end(&call);
}

void H2ClientSession::on_close(ClientCall& call, uint32_t error_code) {
  if (!call.ended && call.handler) {
    call.ended = true;
    const bool refused = error_code == NGHTTP2_REFUSED_STREAM;
    std::string text = refused ? "the server did not take the request (" : "the server reset the stream (";
    text.append(h2_error_name(error_code)).append(")");
    events_->on_reset(&call, error_code, unavailable(std::move(text)), !refused);
  }
  calls_.remove(&call);
  events_->on_released(&call);
}

void H2ClientSession::fail_all(const Status& why) {
  draining_ = true;
  while (ClientCall* call = calls_.front()) {
    calls_.remove(call);
    const bool live = call->handler && !call->ended;
    call->ended = true;
    if (live) events_->on_failed(call, why, true);
    events_->on_released(call);
  }
}

}  // namespace

std::unique_ptr<ClientSession> make_h2_client_session(const ClientSessionConfig* config, ClientSessionEvents* events) {
  return std::make_unique<H2ClientSession>(config, events);
}

}  // namespace ghostfleet::kube::http
