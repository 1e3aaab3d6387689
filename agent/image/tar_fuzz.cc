// Bytes to the tar reader, in two pieces; and, as gzip and zstd, through the decompressors before. What a reader
// passes on is never more than came in.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "agent/image/decompress.h"
#include "agent/image/tar_reader.h"

namespace {

using namespace ghostfleet;
using namespace ghostfleet::image;

struct Counter : TarSink {
  uint64_t open = 0, content = 0;
  Status on_entry(const TarEntry& e) override {
    if (e.name.size() > TarReader::kMaxName + 512 || e.size > TarReader::kMaxFile || (e.mode & ~07777u) != 0)
      std::abort();
    open = e.size;
    return Status();
  }
  Status on_content(std::string_view bytes) override {
    if (bytes.size() > open) std::abort();
    open -= bytes.size();
    content += bytes.size();
    return Status();
  }
  Status on_entry_end() override {
    if (open != 0) std::abort();
    return Status();
  }
};

void read_tar(std::string_view bytes) {
  Counter counter;
  TarReader reader(&counter);
  if (reader.feed(bytes.substr(0, bytes.size() / 2)).ok() && reader.feed(bytes.substr(bytes.size() / 2)).ok())
    (void)reader.finish();
  if (counter.content > bytes.size() || reader.position() > bytes.size()) std::abort();
}

// A header's checksum set right, so that what is behind it is reached.
std::string with_checksum(std::string bytes) {
  if (bytes.size() < 512) return bytes;
  unsigned sum = 0;
  for (size_t i = 0; i < 512; ++i) sum += i >= 148 && i < 156 ? ' ' : static_cast<unsigned char>(bytes[i]);
  for (int i = 5; i >= 0; --i, sum /= 8) bytes[148 + static_cast<size_t>(i)] = static_cast<char>('0' + sum % 8);
  bytes[154] = '\0';
  bytes[155] = ' ';
  return bytes;
}

std::string header(const std::string& name, char type, const std::string& size) {
  std::string block(512, '\0');
  block.replace(0, name.size(), name);
  block.replace(100, 7, "0000644");
  block.replace(108, 7, "0000000");
  block.replace(116, 7, "0000000");
  block.replace(124, size.size(), size);
  block.replace(136, 11, "15000000000");
  block[156] = type;
  block.replace(257, 6, std::string("ustar\0", 6));
  return with_checksum(block);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  read_tar(bytes);
  read_tar(with_checksum(std::string(bytes)));
  for (const Compression kind : {Compression::kGzip, Compression::kZstd}) {
    const auto d = make_decompressor(kind);
    uint64_t made = 0;
    const auto sink = [&](std::string_view out) {
      made += out.size();
      return made < (8u << 20) ? Status() : Status(Code::kResourceExhausted, "enough");
    };
    if (d->feed(bytes.substr(0, size / 2), sink).ok() && d->feed(bytes.substr(size / 2), sink).ok()) (void)d->finish();
  }
  if (size > 1)
    (void)inflate_from(bytes.substr(1), data[0] & 7, bytes, data[0], 1000, [](std::string_view) { return Status(); });
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  const std::string content = "some content", padding(500, '\0');
  std::vector<std::string> seeds{
      header("file", '0', "00000000014") + content + padding + std::string(1024, '\0'),
      header("pax", 'x', "00000000034") + "18 path=long/name\n10 size=3\n" + std::string(484, '\0') +
          header("f", '0', "00000000003"),
      header("././@LongLink", 'L', "00000000006") + "a/b/c" + std::string(507, '\0') + header("f", '5', "00000000000"),
      header("big", '0', std::string("\x80\0\0\0\0\0\0\0\0\0\2\0", 12)),
      header("link", '2', "00000000000"),
      std::string("\x1f\x8b\x08\0\0\0\0\0\0\x03\x4b\x04\0\x43\xbe\xb7\xe8\x01\0\0\0", 21),
      std::string("\x28\xb5\x2f\xfd\x20\x01\x09\0\0\x61", 10),
  };
  return seeds;
}
