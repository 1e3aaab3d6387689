#include "kube/http/h2_core.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "kube/http/lazy_blocks.h"

namespace ghostfleet::kube::http {

// nghttp2's memory: from the heap, but its frame buffers (16 KiB and a few bytes) from lazy blocks.
struct FrameMemory {
  static constexpr size_t kLeast = 16 * 1024;

  static void* allocate(size_t size, void*) {
    if (size < kLeast || size > LazyBlocks::kBytes) return std::malloc(size);
    void* block = LazyBlocks::take();
    return block == nullptr ? std::malloc(size) : block;
  }
  static void release(void* p, void*) {
    if (!LazyBlocks::owns(p)) return std::free(p);
    LazyBlocks::give_back(p);
  }
  static void* zeroed(size_t count, size_t size, void*) { return std::calloc(count, size); }
  static void* resize(void* p, size_t size, void* user) {
    if (p == nullptr) return allocate(size, user);  // how nghttp2 makes its frame buffers
    if (!LazyBlocks::owns(p)) return std::realloc(p, size);
    void* moved = std::malloc(size);
    if (moved == nullptr) return nullptr;
    std::memcpy(moved, p, std::min(size, LazyBlocks::kBytes));
    release(p, user);
    return moved;
  }
};

H2Core::~H2Core() { nghttp2_session_del(session_); }

void H2Core::open(nghttp2_session_callbacks* callbacks, void* owner) {
  nghttp2_mem memory{nullptr, FrameMemory::allocate, FrameMemory::release, FrameMemory::zeroed, FrameMemory::resize};
  nghttp2_option* option = nullptr;
  nghttp2_option_new(&option);
  nghttp2_option_set_no_auto_window_update(option, 1);
  nghttp2_option_set_no_closed_streams(option, 1);
  nghttp2_option_set_stream_reset_rate_limit(option, kResetBurst, kResetRate);
  nghttp2_session_server_new3(&session_, callbacks, owner, option, &memory);
  nghttp2_option_del(option);
  nghttp2_session_callbacks_del(callbacks);
}

void H2Core::announce(uint32_t max_streams, uint32_t stream_window, uint32_t connection_window,
                      uint32_t max_header_bytes) {
  const nghttp2_settings_entry settings[] = {
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, stream_window},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, max_header_bytes},
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, max_streams},
  };
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings, std::size(settings));
  nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, static_cast<int32_t>(connection_window));
}

Status H2Core::feed(std::string_view bytes) {
  const ssize_t n = nghttp2_session_mem_recv(session_, reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  if (n < 0) return unavailable(std::string("HTTP/2: ") + nghttp2_strerror(static_cast<int>(n)));
  return Status();
}

void H2Core::pull(std::string* out, size_t limit) {
  while (out->size() < limit) {
    const uint8_t* data = nullptr;
    const ssize_t n = nghttp2_session_mem_send(session_, &data);
    if (n <= 0) return;
    out->append(reinterpret_cast<const char*>(data), static_cast<size_t>(n));
  }
}

bool H2Core::finished() const {
  return nghttp2_session_want_read(session_) == 0 && nghttp2_session_want_write(session_) == 0;
}

void H2Core::go_away(uint32_t error_code) {
  nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(session_), error_code,
                        nullptr, 0);
}

void H2Core::ping() { nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, nullptr); }

void H2Core::reset_stream(int32_t stream, uint32_t error_code) {
  nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream, error_code);
}

const char* h2_error_name(uint32_t code) { return nghttp2_http2_strerror(code); }

}  // namespace ghostfleet::kube::http
