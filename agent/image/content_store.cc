#include "agent/image/content_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <set>

#include "agent/image/digest.h"
#include "base/files.h"
#include "kube/api/json.h"

namespace ghostfleet::image {
namespace {

constexpr size_t kMaxRecord = 4u << 20;
constexpr std::string_view kFolders[] = {"blobs/sha256", "ingest", "layers", "rootfs", "spans", "images", "tmp"};

kube::JsonArray array_of(const std::vector<std::string>& all) {
  kube::JsonArray out;
  for (const std::string& one : all) out.emplace_back(one);
  return out;
}

std::vector<std::string> strings_of(const kube::Json& json, std::string_view field) {
  std::vector<std::string> out;
  const kube::JsonArray* items = kube::get_array(json, field);
  for (size_t i = 0; items != nullptr && i < items->size(); ++i) {
    if ((*items)[i].is_string()) out.emplace_back(std::string_view((*items)[i].get_string()));
  }
  return out;
}

std::string record_to_json(const ImageRecord& r) {
  return kube::to_json(kube::JsonObject{{"reference", r.reference},
                                        {"manifest", r.manifest},
                                        {"target", r.target},
                                        {"config", r.config},
                                        {"chain", r.chain},
                                        {"platform", r.platform},
                                        {"puller", r.puller},
                                        {"layers", array_of(r.layers)},
                                        {"diffs", array_of(r.diffs)},
                                        {"extra", array_of(r.extra)},
                                        {"size", r.size},
                                        {"pulled", r.pulled},
                                        {"plainHTTP", r.plain_http}});
}

Result<ImageRecord> record_from_json(std::string_view bytes) {
  auto json = kube::parse_json(bytes, {.max_depth = 8});
  if (!json.ok()) return json.error();
  ImageRecord r;
  r.reference = kube::get_string(*json, "reference");
  r.manifest = kube::get_string(*json, "manifest");
  r.target = kube::get_string(*json, "target");
  r.config = kube::get_string(*json, "config");
  r.chain = kube::get_string(*json, "chain");
  r.platform = kube::get_string(*json, "platform");
  r.puller = kube::get_string(*json, "puller");
  r.layers = strings_of(*json, "layers");
  r.diffs = strings_of(*json, "diffs");
  r.extra = strings_of(*json, "extra");
  r.size = static_cast<uint64_t>(kube::get_int(*json, "size"));
  r.pulled = kube::get_string(*json, "pulled");
  r.plain_http = kube::get_bool(*json, "plainHTTP");
  std::vector<std::string> digests = r.layers;
  for (const auto* more : {&r.diffs, &r.extra}) digests.insert(digests.end(), more->begin(), more->end());
  digests.push_back(r.manifest);
  digests.push_back(r.config);
  if (!r.chain.empty()) digests.push_back(r.chain);
  if (!r.target.empty()) digests.push_back(r.target);
  for (const std::string& digest : digests) GF_RETURN_IF_ERROR(check_digest(digest));
  return r;
}

Result<std::vector<std::string>> names_of(const std::string& path) {
  const Fd folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) return system_status(path, errno);
  return names_in(folder.get());
}

uint64_t bytes_of(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 ? static_cast<uint64_t>(info.st_blocks) * 512 : 0;
}

// Locks of the open file, not of the process: two stores of one process know of each other. 0, or an errno.
int lock_file(int fd, short type, bool wait) {
  struct flock how {};
  how.l_type = type;
  how.l_whence = SEEK_SET;
  while (fcntl(fd, wait ? F_OFD_SETLKW : F_OFD_SETLK, &how) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}
bool is_taken(int error) { return error == EAGAIN || error == EACCES; }

}  // namespace

Result<std::unique_ptr<ContentStore>> ContentStore::open(const std::string& folder, Lock lock) {
  if (folder.empty()) return invalid_argument("a folder for images is expected");
  if (Status s = make_directories(folder); !s.ok()) return s.with_context("image store");
  const std::string path = folder + "/lock";
  Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd.valid()) return system_status("image store: " + path, errno);
  const int error = lock_file(fd.get(), lock == Lock::kAlone ? F_WRLCK : F_RDLCK, lock == Lock::kShared);
  if (is_taken(error))
    return Status(Code::kResourceExhausted,
                  fmt::format("image store {}: another process pulls or reads there", folder));
  if (error != 0) return system_status("image store: " + path, error);
  std::unique_ptr<ContentStore> store(new ContentStore(folder, std::move(fd), lock));
  GF_RETURN_IF_ERROR(store->make_folders());
  return store;
}

ContentStore::~ContentStore() = default;

Status ContentStore::make_folders() const {
  for (const std::string_view name : kFolders)
    GF_RETURN_IF_ERROR(make_directories(fmt::format("{}/{}", folder_, name)).with_context("image store"));
  return Status();
}

std::string ContentStore::blob_path(std::string_view digest) const {
  return fmt::format("{}/blobs/sha256/{}", folder_, hex_of(digest));
}
std::string ContentStore::layer_path(std::string_view diff) const {
  return fmt::format("{}/layers/{}", folder_, hex_of(diff));
}
std::string ContentStore::rootfs_path(std::string_view chain) const {
  return fmt::format("{}/rootfs/{}", folder_, hex_of(chain));
}
std::string ContentStore::ingest_path(std::string_view digest) const {
  return fmt::format("{}/ingest/{}", folder_, hex_of(digest));
}
std::string ContentStore::span_path(std::string_view layer, std::string_view name) const {
  return fmt::format("{}/spans/{}/{}", folder_, hex_of(layer), name);
}

bool ContentStore::has_blob(std::string_view digest) const { return file_exists(blob_path(digest)); }
bool ContentStore::has_layer(std::string_view diff) const { return file_exists(layer_path(diff)); }
bool ContentStore::has_rootfs(std::string_view chain) const { return file_exists(rootfs_path(chain)); }

Status ContentStore::put_blob(std::string_view digest, const std::string& bytes) {
  GF_RETURN_IF_ERROR(compare_digests("blob", digest, digest_of(bytes)));
  const auto kept = read_blob(digest, bytes.size());  // also when it is there: it may have been spoilt
  return kept.ok() ? Status() : write_in_one(blob_path(digest), bytes, true);
}

// By way of a name of its own: several threads may write the same thing.
Status ContentStore::write_in_one(const std::string& path, const std::string& bytes, bool durable) {
  static std::atomic<uint64_t> count{0};
  const std::string temporary = fmt::format("{}/tmp/file-{}-{}", folder_, getpid(), count.fetch_add(1));
  GF_RETURN_IF_ERROR(write_file(temporary, bytes, 0600, durable));
  if (rename(temporary.c_str(), path.c_str()) == 0) return Status();
  const int error = errno;
  unlink(temporary.c_str());
  return system_status("writing " + path, error);
}

Result<std::string> ContentStore::read_blob(std::string_view digest, size_t limit) const {
  auto bytes = read_file(blob_path(digest), limit);
  if (!bytes.ok()) return bytes.error();
  GF_RETURN_IF_ERROR(compare_digests(blob_path(digest), digest, digest_of(*bytes)));
  return bytes;
}

Status ContentStore::put_span(std::string_view layer, std::string_view name, const std::string& bytes) {
  const std::string path = span_path(layer, name);
  GF_RETURN_IF_ERROR(make_directories(parent_directory(path)));
  return write_in_one(path, bytes, false);
}

bool ContentStore::has_span(std::string_view layer, std::string_view name) const {
  return file_exists(span_path(layer, name));
}

std::string ContentStore::read_span(std::string_view layer, std::string_view name, size_t limit) const {
  auto bytes = read_file(span_path(layer, name), limit);
  return bytes.ok() ? std::move(*bytes) : std::string();
}

Result<std::string> ContentStore::temporary_folder(std::string_view name) {
  static std::atomic<uint64_t> count{0};
  const std::string path = fmt::format("{}/tmp/{}-{}-{}", folder_, name, getpid(), count.fetch_add(1));
  GF_RETURN_IF_ERROR(remove_tree(path));
  if (mkdir(path.c_str(), 0700) != 0) return system_status("making " + path, errno);
  return path;
}

Status ContentStore::move_in(const std::string& temporary, const std::string& place) {
  if (rename(temporary.c_str(), place.c_str()) == 0) return Status();
  const int error = errno;
  const bool there = error == EEXIST || error == ENOTEMPTY;
  GF_RETURN_IF_ERROR(remove_tree(temporary));
  return there ? Status() : system_status("moving to " + place, error);
}

Status ContentStore::put_image(const ImageRecord& record) {
  const std::string name = digest_of(record.reference);
  return write_in_one(fmt::format("{}/images/{}.json", folder_, hex_of(name)), record_to_json(record) + "\n", true);
}

Result<ImageRecord> ContentStore::find_image(const std::string& reference) const {
  const std::string name = digest_of(reference);
  const std::string path = fmt::format("{}/images/{}.json", folder_, hex_of(name));
  auto bytes = read_file(path, kMaxRecord);
  if (!bytes.ok() && bytes.error().code() == Code::kNotFound)
    return not_found(fmt::format("image {} is not in {}", reference, folder_));
  if (!bytes.ok()) return bytes.error();
  auto record = record_from_json(*bytes);
  if (!record.ok()) return record.error().with_context(path);
  return record;
}

Result<std::vector<ImageRecord>> ContentStore::images() const {
  const std::string folder = folder_ + "/images";
  auto names = names_of(folder);
  if (!names.ok()) return names.error();
  std::vector<ImageRecord> out;
  for (const std::string& name : *names) {
    if (!name.ends_with(".json")) continue;
    auto bytes = read_file(folder + "/" + name, kMaxRecord);
    if (!bytes.ok()) continue;  // removed meanwhile
    auto record = record_from_json(*bytes);
    if (!record.ok()) return record.error().with_context(folder + "/" + name);
    out.push_back(std::move(*record));
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.reference < b.reference; });
  return out;
}

Status ContentStore::remove_image(const std::string& reference) {
  GF_RETURN_IF_ERROR([&] {
    auto found = find_image(reference);
    return found.ok() ? Status() : found.error();
  }());
  const std::string name = digest_of(reference);
  const std::string path = fmt::format("{}/images/{}.json", folder_, hex_of(name));
  return unlink(path.c_str()) == 0 ? Status() : system_status("removing " + path, errno);
}

class ContentStore::Alone {
 public:
  explicit Alone(ContentStore* store) : store_(store) {}
  ~Alone() {
    if (!taken_) return;
    lock_file(store_->lock_.get(), F_RDLCK, false);
    const std::lock_guard lock(store_->mutex_);
    store_->sweeping_ = false;
    store_->sticky_.clear();
  }
  // A lock that is not to be had leaves the one that is there.
  Status take() {
    const int error = lock_file(store_->lock_.get(), F_WRLCK, false);
    if (is_taken(error))
      return Status(Code::kResourceExhausted,
                    fmt::format("image store {}: another process pulls or reads there", store_->folder_));
    if (error != 0) return system_status("image store: " + store_->folder_ + "/lock", error);
    taken_ = true;
    const std::lock_guard lock(store_->mutex_);
    store_->sweeping_ = true;
    store_->sticky_.insert(store_->pins_.begin(), store_->pins_.end());
    return Status();
  }

 private:
  ContentStore* store_;
  bool taken_ = false;
};

ContentStore::Pin ContentStore::pin(const std::vector<std::string>& digests) {
  auto names = std::make_unique<std::vector<std::string>>();
  for (const std::string& digest : digests) {
    if (!digest.empty()) names->emplace_back(hex_of(digest));
  }
  {
    const std::lock_guard lock(mutex_);
    pins_.insert(names->begin(), names->end());
    if (sweeping_) sticky_.insert(names->begin(), names->end());
  }
  return Pin(names.release(), [this](const void* held) {
    const std::unique_ptr<const std::vector<std::string>> gone(static_cast<const std::vector<std::string>*>(held));
    const std::lock_guard lock(mutex_);
    for (const std::string& name : *gone) pins_.erase(pins_.find(name));
  });
}

// What images refer to, by the folders it is in.
struct ContentStore::Kept {
  std::set<std::string> blobs, layers, roots, spans;
};

Result<ContentStore::Kept> ContentStore::kept_by_images() const {
  auto all = images();
  if (!all.ok()) return all.error();
  Kept kept;
  for (const ImageRecord& r : *all) {
    for (const auto* list : {&r.layers, &r.extra}) {
      for (const std::string& digest : *list) kept.blobs.emplace(hex_of(digest));
    }
    for (const std::string& digest : r.layers) kept.spans.emplace(hex_of(digest));
    kept.spans.emplace(hex_of(r.manifest));  // what was found about it
    kept.blobs.emplace(hex_of(r.manifest));
    kept.blobs.emplace(hex_of(r.config));
    for (const std::string& diff : r.diffs) kept.layers.emplace(hex_of(diff));
    if (!r.chain.empty()) kept.roots.emplace(hex_of(r.chain));
  }
  return kept;
}

// Renamed while nobody can pin it; false: it is pinned, or gone.
bool ContentStore::take_out(const std::string& path, const std::string& name, const std::string& place) {
  const std::lock_guard lock(mutex_);
  return pins_.count(name) == 0 && !sticky_.contains(name) && rename(path.c_str(), place.c_str()) == 0;
}

Status ContentStore::sweep(const std::string& folder, const std::set<std::string>& keep, uint64_t* count,
                           uint64_t* bytes) {
  static std::atomic<uint64_t> number{0};
  auto names = names_of(folder_ + "/" + folder);
  if (!names.ok()) return names.error();
  for (const std::string& name : *names) {
    if (keep.contains(name)) continue;
    const std::string path = fmt::format("{}/{}/{}", folder_, folder, name);
    const std::string gone = fmt::format("{}/tmp/gone-{}-{}", folder_, getpid(), number.fetch_add(1));
    const uint64_t size = bytes_of(path);
    if (!take_out(path, name, gone)) continue;
    *bytes += size;
    ++*count;
    GF_RETURN_IF_ERROR(remove_tree(gone));
  }
  return Status();
}

// What no image needs.
Status ContentStore::sweep_unused(Collected* out) {
  const auto kept = kept_by_images();
  if (!kept.ok()) return kept.error();
  uint64_t other = 0;
  GF_RETURN_IF_ERROR(sweep("rootfs", kept->roots, &out->roots, &out->bytes));
  GF_RETURN_IF_ERROR(sweep("layers", kept->layers, &out->layers, &out->bytes));
  GF_RETURN_IF_ERROR(sweep("blobs/sha256", kept->blobs, &out->blobs, &out->bytes));
  return sweep("spans", kept->spans, &other, &out->bytes);
}

Result<ContentStore::Collected> ContentStore::collect() {
  if (kind_ != Lock::kAlone) return internal_error("collecting needs the store alone");
  Collected out;
  uint64_t other = 0;
  GF_RETURN_IF_ERROR(sweep_unused(&out));
  GF_RETURN_IF_ERROR(sweep("ingest", {}, &other, &out.bytes));
  GF_RETURN_IF_ERROR(sweep("tmp", {}, &other, &out.bytes));
  return out;
}

// What is on its way (ingest, tmp) is not looked at.
Result<ContentStore::Collected> ContentStore::remove_images(const std::vector<std::string>& references) {
  Alone alone(this);
  GF_RETURN_IF_ERROR(alone.take());
  for (const std::string& reference : references) {
    const Status s = remove_image(reference);
    if (!s.ok() && s.code() != Code::kNotFound) return s;
  }
  Collected out;
  GF_RETURN_IF_ERROR(sweep_unused(&out));
  return out;
}

uint64_t ContentStore::unfinished_bytes() const {
  uint64_t sum = 0;
  auto names = names_of(folder_ + "/ingest");
  for (size_t i = 0; names.ok() && i < names->size(); ++i)
    sum += bytes_of(fmt::format("{}/ingest/{}", folder_, (*names)[i]));
  return sum;
}

}  // namespace ghostfleet::image
