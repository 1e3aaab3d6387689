// Any bytes as an archive: nothing crashes, nothing leaves the directory, limits are kept; what was unpacked packs
// again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "agent/kubelet_api/http_responder.h"
#include "agent/kubelet_api/log_options.h"
#include "agent/kubelet_api/route.h"
#include "agent/kubelet_api/sandbox/tar_stream.h"

using namespace ghostfleet;
using namespace ghostfleet::kubelet_api;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  FileSystem files;
  (void)files.make_directory("/x", true, {});
  (void)tar_extract(bytes, "/x", {}, &files);
  (void)tar_list(bytes);
  if (files.used_bytes() > FileSystem::kMaxBytes) std::abort();
  for (const std::string& path : files.walk("/")) {
    if (path != "/" && path != "/x" && !path.starts_with("/x/")) std::abort();
  }
  std::string archive;
  (void)tar_create({"/x"}, "/", files, &archive);
  FileSystem again;
  if (!tar_extract(archive, "/", {}, &again).empty()) std::abort();

  HttpResponder responder("text\n");
  std::string out;
  (void)(responder.feed(bytes.substr(0, size / 2), &out) && responder.feed(bytes.substr(size / 2), &out));
  bool unprocessable = false;
  (void)parse_log_options(bytes, {1767607200000000000}, &unprocessable).ok();
  (void)parse_route(bytes);
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  FileSystem files;
  (void)files.make_directory("/d/e", true, {});
  (void)files.write("/d/e/f", "content", false, {});
  (void)files.write("/d/" + std::string(150, 'n'), "long name", false, {});
  std::string archive;
  (void)tar_create({"/d"}, "/", files, &archive);
  return {archive, "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nabcdPOST /x HTTP/1.0\r\n\r\n",
          "follow=true&tailLines=5&sinceTime=2026-01-05T10:00:00Z&limitBytes=10&timestamps=1&previous=false",
          "/containerLogs/ns/pod/c", "/exec/a/b/c/d?command=x"};
}
