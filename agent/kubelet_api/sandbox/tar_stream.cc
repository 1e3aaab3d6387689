#include "agent/kubelet_api/sandbox/tar_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace ghostfleet::kubelet_api {
namespace {

constexpr size_t kBlock = 512;
constexpr size_t kMaxName = 4096;

struct Entry {
  std::string name;
  char type = '0';
  uint32_t mode = 0644;
  std::string_view content;
};

std::string_view field(std::string_view header, size_t at, size_t size) {
  const std::string_view raw = header.substr(at, size);
  return raw.substr(0, std::min(raw.find('\0'), raw.size()));
}

// Octal, or GNU's base 256 when the first bit is set. Nonsense is zero.
uint64_t number(std::string_view header, size_t at, size_t size) {
  const auto first = static_cast<unsigned char>(header[at]);
  uint64_t value = 0;
  if ((first & 0x80) != 0) {
    for (size_t i = at + 1; i < at + size; ++i) value = value << 8 | static_cast<unsigned char>(header[i]);
    return value;
  }
  for (const char c : field(header, at, size)) {
    if (c >= '0' && c <= '7') value = value << 3 | static_cast<uint64_t>(c - '0');
  }
  return value;
}

bool checksum_right(std::string_view header) {
  uint64_t sum = 0;
  for (size_t i = 0; i < kBlock; ++i) sum += i >= 148 && i < 156 ? ' ' : static_cast<unsigned char>(header[i]);
  return sum == number(header, 148, 8);
}

// "path" of a pax header: records "LENGTH KEY=VALUE\n".
std::string pax_path(std::string_view records) {
  while (!records.empty()) {
    size_t length = 0;
    size_t i = 0;
    while (i < records.size() && records[i] >= '0' && records[i] <= '9' && length < records.size())
      length = length * 10 + static_cast<size_t>(records[i++] - '0');
    if (length <= i + 1 || length > records.size() || records[i] != ' ') return {};
    const std::string_view record = records.substr(i + 1, length - i - 2);
    if (record.starts_with("path=")) return std::string(record.substr(5));
    records.remove_prefix(length);
  }
  return {};
}

class Reader {
 public:
  explicit Reader(std::string_view archive) : rest_(archive) {}

  // False at the end, or when the archive is broken: then error() says why.
  bool next(Entry* entry) {
    std::string long_name;
    while (rest_.size() >= kBlock) {
      const std::string_view header = rest_.substr(0, kBlock);
      if (header.find_first_not_of('\0') == std::string_view::npos) return false;
      if (!checksum_right(header)) return fail("This does not look like a tar archive");
      const uint64_t size = number(header, 124, 12);
      if (size > rest_.size() - kBlock) return fail("Unexpected EOF in archive");
      const std::string_view content = rest_.substr(kBlock, size);
      rest_.remove_prefix(std::min(rest_.size(), kBlock + (size + kBlock - 1) / kBlock * kBlock));
      const char type = header[156];
      if (type == 'L') {
        long_name = content.substr(0, std::min(content.find('\0'), std::min(content.size(), kMaxName)));
      } else if (type == 'x') {
        long_name = pax_path(content).substr(0, kMaxName);
      } else if (type != 'g' && type != 'K') {
        fill(header, type, content, long_name, entry);
        return true;
      }
    }
    if (!rest_.empty()) return fail("Unexpected EOF in archive");
    return false;
  }
  const std::string& error() const { return error_; }

 private:
  static void fill(std::string_view header, char type, std::string_view content, const std::string& long_name,
                   Entry* entry) {
    const std::string_view prefix = field(header, 257, 5) == "ustar" ? field(header, 345, 155) : std::string_view();
    entry->name = !long_name.empty() ? long_name
                  : prefix.empty()   ? std::string(field(header, 0, 100))
                                     : fmt::format("{}/{}", prefix, field(header, 0, 100));
    entry->type = type == '\0' ? '0' : type;
    if (entry->type == '0' && entry->name.ends_with('/')) entry->type = '5';
    entry->mode = static_cast<uint32_t>(number(header, 100, 8) & 0777);
    entry->content = content;
  }
  bool fail(const char* why) {
    error_ = fmt::format("tar: {}\n", why);
    return false;
  }

  std::string_view rest_;
  std::string error_;
};

std::string extract_one(const Entry& entry, const std::string& directory, WallTime now, FileSystem* files) {
  if (entry.type != '0' && entry.type != '5') return {};
  // Never above the directory it is unpacked in.
  const std::string path = FileSystem::resolve(directory, FileSystem::resolve("/", entry.name).substr(1));
  if (path == directory) return {};
  const std::string parent = FileSystem::resolve(path, "..");
  FileError error = entry.type == '5' ? FileError::kOk : files->make_directory(parent, true, now);
  if (error == FileError::kOk)
    error = entry.type == '5' ? files->make_directory(path, true, now) : files->write(path, entry.content, false, now);
  if (error != FileError::kOk) return fmt::format("tar: {}: Cannot open: {}\n", entry.name, file_error_text(error));
  if (entry.type == '0') (void)files->set_mode(path, entry.mode);
  return {};
}

void put(std::string* header, size_t at, std::string_view text) { header->replace(at, text.size(), text); }

void append_entry(const std::string& name, const FileEntry& file, char type, std::string_view content,
                  std::string* out) {
  std::string header(kBlock, '\0');
  put(&header, 0, std::string_view(name).substr(0, 100));
  put(&header, 100, fmt::format("{:07o}", file.mode));
  put(&header, 108, "0000000");
  put(&header, 116, "0000000");
  put(&header, 124, fmt::format("{:011o}", content.size()));
  put(&header, 136, fmt::format("{:011o}", std::max<int64_t>(file.modified.seconds(), 0)));
  put(&header, 148, "        ");
  header[156] = type;
  put(&header, 257, std::string_view("ustar\00000", 8));
  put(&header, 265, "root");
  put(&header, 297, "root");
  uint64_t sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  put(&header, 148, fmt::format("{:06o}", sum));
  header[154] = '\0';
  *out += header;
  *out += content;
  out->append((kBlock - content.size() % kBlock) % kBlock, '\0');
}

void append_file(std::string name, const FileEntry& file, std::string* out) {
  if (file.directory()) name += "/";
  if (name.size() > 100)
    append_entry("././@LongLink", FileEntry{share(""), 0, {}, false, false}, 'L', name + '\0', out);
  append_entry(name, file, file.directory() ? '5' : '0', view(file.content), out);
}

}  // namespace

std::string tar_extract(std::string_view archive, const std::string& directory, WallTime now, FileSystem* files) {
  Reader reader(archive);
  Entry entry;
  while (reader.next(&entry)) {
    std::string error = extract_one(entry, directory, now, files);
    if (!error.empty()) return error;
  }
  return reader.error();
}

std::string tar_create(const std::vector<std::string>& paths, const std::string& directory, const FileSystem& files,
                       std::string* archive) {
  std::string errors;
  for (const std::string& given : paths) {
    const std::string root = FileSystem::resolve(directory, given);
    std::string name = given;
    while (name.ends_with('/') && name.size() > 1) name.pop_back();
    name.erase(0, std::min(name.find_first_not_of('/'), name.size()));
    const std::vector<std::string> all = files.walk(root);
    if (all.empty()) errors += fmt::format("tar: {}: Cannot stat: No such file or directory\n", given);
    for (const std::string& path : all) {
      const FileEntry& file = *files.find(path);
      if (file.hidden) {
        errors += fmt::format("tar: {}: Cannot open: Permission denied\n", path);
        continue;
      }
      std::string tail = path.substr(root == "/" ? 0 : root.size());
      std::string full = name.empty() && tail.starts_with('/') ? tail.substr(1) : name + tail;
      if (!full.empty()) append_file(std::move(full), file, archive);
    }
  }
  archive->append(2 * kBlock, '\0');
  return errors;
}

std::vector<std::string> tar_list(std::string_view archive) {
  std::vector<std::string> names;
  Reader reader(archive);
  Entry entry;
  while (reader.next(&entry)) names.push_back(entry.name);
  return names;
}

}  // namespace ghostfleet::kubelet_api
