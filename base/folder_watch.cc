#include "base/folder_watch.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <cstring>

#include "base/descriptor.h"

namespace ghostfleet {
namespace {

namespace asio = boost::asio;
using Descriptor = asio::posix::stream_descriptor;

constexpr uint32_t kAppeared = IN_CREATE | IN_MOVED_TO;
constexpr uint32_t kGone = IN_DELETE | IN_MOVED_FROM;
constexpr uint32_t kEverything = IN_Q_OVERFLOW | IN_DELETE_SELF | IN_MOVE_SELF;

class InotifyWatch final : public FolderWatch {
 public:
  InotifyWatch(EventLoop& loop, int fd, OnChange on_change)
      : descriptor_(*static_cast<asio::io_context*>(loop.native()), fd), on_change_(std::move(on_change)) {
    wait();
  }
  ~InotifyWatch() override { *alive_ = false; }

 private:
  void wait() {
    descriptor_.async_wait(Descriptor::wait_read, [this, alive = alive_](const boost::system::error_code& error) {
      if (!error && *alive) read_events(alive);
    });
  }

  void read_events(const std::shared_ptr<bool>& alive) {
    alignas(inotify_event) char buffer[16 * 1024];
    ssize_t size = 0;
    while (*alive && (size = ::read(descriptor_.native_handle(), buffer, sizeof buffer)) > 0) {
      for (ssize_t at = 0; at < size && *alive;) {
        inotify_event event;
        std::memcpy(&event, buffer + at, sizeof event);
        tell(event.mask, event.len > 0 ? buffer + at + sizeof event : "");
        at += static_cast<ssize_t>(sizeof event + event.len);
      }
    }
    if (*alive) wait();
  }

  void tell(uint32_t mask, const std::string& name) {
    const OnChange on_change = on_change_;  // it may destroy the watch
    if ((mask & kEverything) != 0) return on_change("", Change::kGone);
    if ((mask & IN_IGNORED) != 0 || name.empty()) return;
    on_change(name, (mask & kAppeared) != 0 ? Change::kAppeared
                    : (mask & kGone) != 0   ? Change::kGone
                                            : Change::kWritten);
  }

  Descriptor descriptor_;
  OnChange on_change_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace

Result<std::unique_ptr<FolderWatch>> FolderWatch::open(EventLoop& loop, const std::string& folder, OnChange on_change) {
  Fd fd(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (!fd.valid()) return system_status("watch " + folder, errno);
  const uint32_t mask = kAppeared | kGone | IN_CLOSE_WRITE | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;
  if (::inotify_add_watch(fd.get(), folder.c_str(), mask) < 0) return system_status("watch " + folder, errno);
  return std::unique_ptr<FolderWatch>(std::make_unique<InotifyWatch>(loop, fd.release(), std::move(on_change)));
}

}  // namespace ghostfleet
