#include "agent/image/puller.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <condition_variable>
#include <functional>
#include <map>
#include <set>
#include <thread>
#include <tuple>

#include "agent/image/blob_ingest.h"
#include "agent/image/digest.h"
#include "agent/image/layer_pipeline.h"
#include "agent/image/lazy_image.h"
#include "base/files.h"
#include "base/log.h"

namespace ghostfleet::image {
namespace {

constexpr int kMaxThreads = 256;

double seconds_since(TimePoint start) {
  return static_cast<double>((SystemClock::instance().now() - start).count()) * 1e-9;
}

// One layer of the image that has to be unpacked; two layers of the same content are one job.
struct Job {
  Descriptor blob;
  std::string diff;
  LayerKind kind;
  std::unique_ptr<BlobIngest> ingest;  // null: the blob is in the store
  std::atomic<bool> without_ranges{false};
  bool done = false;
  LayerResult result;
};

struct ChunkTask {
  Job* job;
  size_t chunk;
};

Result<size_t> read_file_at(int fd, uint64_t offset, char* out, size_t size, const std::string& path) {
  ssize_t n = 0;
  do {
    n = pread(fd, out, size, static_cast<off_t>(offset));
  } while (n < 0 && errno == EINTR);
  if (n < 0) return system_status("reading " + path, errno);
  return static_cast<size_t>(n);
}

int threads_for(int limit, size_t work) {
  const size_t most = limit < 0 ? kMaxThreads : static_cast<size_t>(std::min(limit, kMaxThreads));
  return static_cast<int>(std::min(std::max<size_t>(most, 1), work));
}

// The threads of one pull and what they share.
class PullRun {
 public:
  PullRun(ContentStore* store, const PullOptions& options, Registry* registry, Gate* downloads, Gate* unpacks,
          CancelFlag* cancel)
      : store_(store),
        options_(options),
        registry_(registry),
        downloads_(downloads),
        unpacks_(unpacks),
        cancel_(cancel) {}

  // Two blobs may hold the same tar; one of them is enough.
  void add(const Descriptor& blob, const std::string& diff, LayerKind kind) {
    if (std::any_of(jobs_.begin(), jobs_.end(), [&](const auto& job) { return job->diff == diff; })) return;
    auto job = std::make_unique<Job>();
    job->blob = blob;
    job->diff = diff;
    job->kind = kind;
    jobs_.push_back(std::move(job));
  }

  Status run(const std::function<Status(const std::string& diff)>& layer_ready, const std::vector<std::string>& order) {
    GF_RETURN_IF_ERROR(open_ingests());
    plan_chunks();
    start();
    for (const std::string& diff : order) {
      if (!wait_for(diff)) break;
      if (Status s = layer_ready(diff); !s.ok()) {
        give_up(s);
        break;
      }
    }
    for (std::thread& t : threads_) t.join();
    return failure_;
  }

  const std::vector<std::unique_ptr<Job>>& jobs() const { return jobs_; }

 private:
  // In the order of their names: two pulls of the same layers must not wait for each other in a circle.
  Status open_ingests() {
    std::vector<Job*> sorted;
    for (const auto& job : jobs_) sorted.push_back(job.get());
    std::sort(sorted.begin(), sorted.end(), [](const Job* a, const Job* b) { return a->blob.digest < b->blob.digest; });
    std::set<std::string> opened;
    for (Job* job : sorted) {
      if (store_->has_blob(job->blob.digest) || !opened.insert(job->blob.digest).second) continue;
      auto ingest = BlobIngest::open(*store_, job->blob, options_.settings.concurrent_download_chunk_size, cancel_);
      if (!ingest.ok()) return ingest.error();
      job->done = store_->has_layer(job->diff);
      if (job->done || store_->has_blob(job->blob.digest)) {  // somebody else was faster
        (*ingest)->discard();
        continue;
      }
      job->ingest = std::move(*ingest);
    }
    return Status();
  }

  // All layers that are unpacked at the same time come at the same time, chunk by chunk.
  void plan_chunks() {
    const int side_by_side = threads_for(options_.settings.max_concurrent_unpacks_per_image, jobs_.size());
    struct Row {
      size_t group, chunk, layer;
      Job* job;
    };
    std::vector<Row> rows;
    for (size_t i = 0; i < jobs_.size(); ++i) {
      Job* job = jobs_[i].get();
      for (size_t c = 0; job->ingest != nullptr && c < job->ingest->chunks(); ++c) {
        if (!job->ingest->whole(c)) rows.push_back({i / static_cast<size_t>(side_by_side), c, i, job});
      }
    }
    std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
      return std::tie(a.group, a.chunk, a.layer) < std::tie(b.group, b.chunk, b.layer);
    });
    for (const Row& row : rows) chunks_.push_back({row.job, row.chunk});
  }

  void start() {
    const int downloads = threads_for(options_.settings.max_concurrent_downloads_per_image, chunks_.size());
    const int unpacks = threads_for(options_.settings.max_concurrent_unpacks_per_image, jobs_.size());
    for (int i = 0; i < downloads; ++i) threads_.emplace_back([this] { download_chunks(); });
    for (int i = 0; i < unpacks; ++i) threads_.emplace_back([this] { unpack_layers(); });
  }

  void download_chunks() {
    while (!over_.load()) {
      const size_t next = next_chunk_.fetch_add(1);
      if (next >= chunks_.size()) return;
      downloads_->enter();
      const Status s = over_.load() ? Status() : download(chunks_[next]);
      downloads_->leave();
      if (!s.ok()) return give_up(s);
    }
  }

  Status download(const ChunkTask& task) {
    Job& job = *task.job;
    BlobIngest& ingest = *job.ingest;
    if (job.without_ranges.load()) return Status();
    if (ingest.chunks() == 1) {
      return registry_->read_range(job.blob, 0, job.blob.size, false,
                                   [&](std::string_view bytes) { return ingest.write(0, bytes); });
    }
    const Status s = registry_->read_range(job.blob, ingest.first_of(task.chunk), ingest.length_of(task.chunk), true,
                                           [&](std::string_view bytes) { return ingest.write(task.chunk, bytes); });
    if (s.code() != Code::kUnimplemented) return s;
    if (job.without_ranges.exchange(true)) return Status();  // another thread fetches the whole
    log_info("image", fmt::format("blob {}: the registry does not know ranges; fetched as one", job.blob.digest));
    return download_whole(job);
  }

  // What came by ranges before stays; the rest is read over where it is there.
  static Status skip_or_write(BlobIngest* ingest, uint64_t* at, std::string_view bytes) {
    const uint64_t have = ingest->contiguous();
    const uint64_t end = *at + bytes.size();
    const uint64_t fresh = end > have ? std::min<uint64_t>(end - have, bytes.size()) : 0;
    *at = end;
    return fresh == 0 ? Status() : ingest->write_in_order(bytes.substr(bytes.size() - fresh));
  }

  Status download_whole(Job& job) {
    uint64_t at = 0;
    BlobIngest* ingest = job.ingest.get();
    return registry_->read_range(job.blob, 0, job.blob.size, false,
                                 [&](std::string_view bytes) { return skip_or_write(ingest, &at, bytes); });
  }

  void unpack_layers() {
    while (!over_.load()) {
      const size_t next = next_job_.fetch_add(1);
      if (next >= jobs_.size()) return;
      unpacks_->enter();
      const Status s = over_.load() ? Status() : unpack(jobs_[next].get());
      unpacks_->leave();
      if (!s.ok()) return give_up(s.with_context(fmt::format("layer {}", jobs_[next]->blob.digest)));
    }
  }

  Status unpack(Job* job) {
    if (!job->done) {
      GF_RETURN_IF_ERROR(job->ingest != nullptr ? unpack_coming(job) : unpack_local(job));
      const std::lock_guard lock(mutex_);
      job->done = true;
    }
    changed_.notify_all();
    return Status();
  }

  Status unpack_coming(Job* job) {
    BlobIngest* ingest = job->ingest.get();
    const Status s = unpack_from(job, [&](uint64_t offset, char* out, size_t size) {
      return cancel_->cancelled() ? Result<size_t>(Status(Code::kCancelled, "cancelled"))
                                  : ingest->read(offset, out, size);
    });
    // What the registry said was wrong, or is not to be had unpacked: a further pull must not go on with it.
    const bool cut =
        s.code() == Code::kUnavailable || s.code() == Code::kCancelled || s.code() == Code::kDeadlineExceeded;
    if (!s.ok()) {
      if (!cut) ingest->discard();
      return s;
    }
    if (!options_.settings.discard_unpacked_layers) return ingest->commit();
    ingest->discard();
    return Status();
  }

  Status unpack_local(Job* job) {
    const std::string path = store_->blob_path(job->blob.digest);
    // A blob that stands in the image twice is there when its first job is done.
    if (!wait_for_blob(job)) return Status();
    const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd.valid()) return system_status("reading " + path, errno);
    const Status s = unpack_from(job, [&](uint64_t offset, char* out, size_t size) {
      return cancel_->cancelled() ? Result<size_t>(Status(Code::kCancelled, "cancelled"))
                                  : read_file_at(fd.get(), offset, out, size, path);
    });
    if (s.code() == Code::kDataLoss) unlink(path.c_str());  // the next pull fetches it anew
    return s;
  }

  bool wait_for_blob(Job* job) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] {
      if (over_.load() || store_->has_blob(job->blob.digest)) return true;
      return std::none_of(jobs_.begin(), jobs_.end(), [&](const auto& other) {
        return other->ingest != nullptr && !other->done && other->blob.digest == job->blob.digest;
      });
    });
    return !over_.load();
  }

  Status unpack_from(Job* job, const BlobSource& source) {
    auto folder = store_->temporary_folder("layer-" + std::string(hex_of(job->diff).substr(0, 12)));
    if (!folder.ok()) return folder.error();
    const Status s = unpack_to(job, source, *folder);
    if (!s.ok()) (void)remove_tree(*folder);
    return s;
  }

  Status unpack_to(Job* job, const BlobSource& source, const std::string& folder) {
    const std::string root = folder + "/root";
    if (mkdir(root.c_str(), 0755) != 0) return system_status("making " + root, errno);
    LayerTask task{job->blob.digest, job->diff, job->blob.size, job->kind.compression, options_.limits};
    auto result = unpack_layer(task, source, root);
    if (!result.ok()) return result.error();
    GF_RETURN_IF_ERROR(write_file(folder + "/marks", marks_to_json(result->marks), 0600, false));
    job->result = std::move(*result);
    return store_->move_in(folder, store_->layer_path(job->diff));
  }

  // False when the pull has failed.
  bool wait_for(const std::string& diff) {
    std::unique_lock lock(mutex_);
    const auto ready = [&] {
      return std::all_of(jobs_.begin(), jobs_.end(), [&](const auto& job) { return job->diff != diff || job->done; });
    };
    changed_.wait(lock, [&] { return over_.load() || ready(); });
    return !over_.load();
  }

  void give_up(const Status& why) {
    {
      const std::lock_guard lock(mutex_);
      // The first error counts, but one of another thread that only says it was stopped does not.
      if (failure_.ok() || (failure_.code() == Code::kCancelled && why.code() != Code::kCancelled)) failure_ = why;
      over_.store(true);
    }
    cancel_->cancel();
    for (const auto& job : jobs_) {
      if (job->ingest != nullptr) job->ingest->fail(Status(Code::kCancelled, "cancelled"));
    }
    changed_.notify_all();
  }

  ContentStore* store_;
  const PullOptions& options_;
  Registry* registry_;
  Gate* downloads_;
  Gate* unpacks_;
  CancelFlag* cancel_;
  std::vector<std::unique_ptr<Job>> jobs_;
  std::vector<ChunkTask> chunks_;
  std::atomic<size_t> next_chunk_{0}, next_job_{0};
  std::atomic<bool> over_{false};
  std::vector<std::thread> threads_;
  std::mutex mutex_;  // guards what follows, and `done` of the jobs
  std::condition_variable changed_;
  Status failure_;
};

// The merged root in the making.
class RootBuilder {
 public:
  RootBuilder(ContentStore* store, std::string chain) : store_(store), chain_(std::move(chain)) {}
  ~RootBuilder() {
    if (!folder_.empty()) (void)remove_tree(folder_);
  }

  Status add(const std::string& diff) {
    if (store_->has_rootfs(chain_)) return Status();
    if (folder_.empty()) {
      auto folder = store_->temporary_folder("rootfs");
      if (!folder.ok()) return folder.error();
      folder_ = *folder;
      if (chmod(folder_.c_str(), 0755) != 0) return system_status(folder_, errno);
    }
    const std::string layer = store_->layer_path(diff);
    auto text = read_file(layer + "/marks", 1u << 30);
    if (!text.ok()) return text.error();
    auto marks = marks_from_json(*text);
    if (!marks.ok()) return marks.error().with_context(layer);
    auto from = RootFolder::open(layer + "/root");
    if (!from.ok()) return from.error();
    auto to = RootFolder::open(folder_);
    if (!to.ok()) return to.error();
    return merge_layer(*from, *marks, &*to).with_context("merging layer " + diff);
  }

  Status finish() {
    if (folder_.empty()) return Status();
    const std::string folder = std::move(folder_);
    folder_.clear();
    return store_->move_in(folder, store_->rootfs_path(chain_));
  }

 private:
  ContentStore* store_;
  std::string chain_, folder_;
};

struct PlannedLayer {
  Descriptor blob;
  std::string diff;
  LayerKind kind;
};

Result<std::vector<PlannedLayer>> plan_layers(const ResolvedImage& image, bool strict) {
  const auto& layers = image.manifest.layers;
  if (layers.size() != image.config.diff_ids.size()) {
    return invalid_argument(fmt::format("image configuration: rootfs.diff_ids has {} entries, the manifest {} layers",
                                        image.config.diff_ids.size(), layers.size()));
  }
  std::vector<PlannedLayer> out;
  for (size_t i = 0; i < layers.size(); ++i) {
    auto kind = layer_kind(layers[i].media_type, strict);
    if (!kind.ok()) return kind.error().with_context(fmt::format("manifest: layers[{}]", i));
    out.push_back({layers[i], image.config.diff_ids[i], *kind});
  }
  return out;
}

void fill_stats(const RegistryStats& from, PullReport* to) {
  to->bytes = from.bytes;
  to->requests = from.requests;
  to->repeats = from.repeats;
  to->throttled = from.throttled;
  to->logins = from.logins;
  to->redirects = from.redirects;
  to->stalls = from.stalls;
}

ImageRecord record_of(const Reference& reference, const ResolvedImage& image, PullMode mode, bool plain_http) {
  ImageRecord r;
  r.reference = reference.to_string();
  r.manifest = image.manifest_digest;
  r.target = image.target_digest;
  r.config = image.manifest.config.digest;
  r.platform = image.config.platform.to_string();
  r.puller = pull_mode_name(mode);
  r.pulled = format_time(SystemClock::instance().wall_now());
  r.plain_http = plain_http;
  r.size = image.manifest.config.size + image.manifest_bytes.size();
  for (const Descriptor& layer : image.manifest.layers) {
    r.layers.push_back(layer.digest);
    r.size += layer.size;
  }
  return r;
}

}  // namespace

Result<PullMode> parse_pull_mode(std::string_view text) {
  if (text == "default") return PullMode::kDefault;
  if (text == "parallel") return PullMode::kParallel;
  if (text == "lazy") return PullMode::kLazy;
  return invalid_argument(fmt::format("puller \"{}\": default, parallel or lazy is expected", text));
}

std::string_view pull_mode_name(PullMode mode) {
  switch (mode) {
    case PullMode::kParallel: return "parallel";
    case PullMode::kLazy: return "lazy";
    default: return "default";
  }
}

PullSettings settings_of(PullMode mode) {
  PullSettings s;
  s.mode = mode;
  if (mode == PullMode::kDefault) return s;
  s.max_concurrent_downloads_per_image = 20;
  s.concurrent_download_chunk_size = 16u << 20;
  s.max_concurrent_unpacks_per_image = 12;
  return s;
}

Result<uint64_t> parse_size(std::string_view text) {
  if (text.empty()) return uint64_t{0};
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string unit(end, text.data() + text.size());
  for (char& c : unit) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  static const std::map<std::string, int> kUnits = {{"", 0},     {"b", 0},   {"k", 10},  {"kb", 10},
                                                    {"kib", 10}, {"m", 20},  {"mb", 20}, {"mib", 20},
                                                    {"g", 30},   {"gb", 30}, {"gib", 30}};
  const auto it = kUnits.find(unit);
  if (error != std::errc() || it == kUnits.end() || value > (1ull << 40) >> it->second)
    return invalid_argument(fmt::format("size \"{}\": a number with a unit is expected, e.g. 16mb", text));
  return value << it->second;
}

void Gate::enter() {
  if (!limited_) return;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return free_ > 0; });
  --free_;
}

void Gate::leave() {
  if (!limited_) return;
  {
    const std::lock_guard lock(mutex_);
    ++free_;
  }
  changed_.notify_one();
}

Result<ResolvedImage> resolve_image(Registry* registry, const Reference& reference, const Platform& platform,
                                    ContentStore* store) {
  auto fetched = registry->manifest(reference.target());
  if (!fetched.ok()) return fetched.error();
  const std::string target = fetched->digest;
  auto document = parse_document(fetched->bytes, fetched->content_type);
  if (!document.ok()) return document.error().with_context(reference.to_string());
  if (document->is_index) {
    const auto chosen = choose_platform(document->manifests, platform);
    if (!chosen.ok()) return chosen.error().with_context(reference.to_string());
    fetched = registry->manifest(chosen->digest);
    if (!fetched.ok()) return fetched.error();
    document = parse_document(fetched->bytes, fetched->content_type);
    if (!document.ok()) return document.error().with_context(reference.to_string());
    if (document->is_index)
      return invalid_argument(reference.to_string() + ": an index inside an index is not supported");
  }
  ResolvedImage out;
  out.target_digest = target;
  out.manifest_digest = fetched->digest;
  out.manifest_bytes = std::move(fetched->bytes);
  out.manifest = std::move(document->manifest);
  auto config = store->read_blob(out.manifest.config.digest, kMaxConfigBytes);
  if (!config.ok()) config = registry->small_blob(out.manifest.config, kMaxConfigBytes);
  if (!config.ok()) return config.error().with_context("image configuration");
  auto parsed = parse_config(*config);
  if (!parsed.ok()) return parsed.error().with_context(reference.to_string());
  out.config = std::move(*parsed);
  std::vector<std::string> digests = out.config.diff_ids;
  digests.insert(digests.end(), {out.manifest_digest, out.manifest.config.digest});
  for (const Descriptor& layer : out.manifest.layers) digests.push_back(layer.digest);
  out.pin = store->pin(digests);
  GF_RETURN_IF_ERROR(store->put_blob(out.manifest.config.digest, *config));
  GF_RETURN_IF_ERROR(store->put_blob(out.manifest_digest, out.manifest_bytes));
  return out;
}

Result<ResolvedImage> stored_image(const ImageRecord& record, const ContentStore& store) {
  ResolvedImage out;
  out.target_digest = record.target;
  out.manifest_digest = record.manifest;
  auto manifest = store.read_blob(record.manifest, kMaxManifestBytes);
  if (!manifest.ok()) return manifest.error();
  auto document = parse_document(*manifest, "application/vnd.oci.image.manifest.v1+json");
  if (!document.ok()) return document.error();
  if (document->is_index) return invalid_argument(record.reference + ": an index where a manifest is expected");
  out.manifest_bytes = std::move(*manifest);
  out.manifest = std::move(document->manifest);
  auto config = store.read_blob(record.config, kMaxConfigBytes);
  if (!config.ok()) return config.error();
  auto parsed = parse_config(*config);
  if (!parsed.ok()) return parsed.error();
  out.config = std::move(*parsed);
  return out;
}

Puller::Puller(ContentStore* store, PullOptions options)
    : store_(store),
      options_(std::move(options)),
      http_(options_.http, options_.ca_file, "ghostfleet"),
      downloads_(options_.settings.max_concurrent_downloads),
      unpacks_(options_.settings.max_concurrent_unpacks) {}
Puller::~Puller() = default;

Result<PullReport> Puller::pull(const Reference& reference, CancelFlag* outer) {
  return pull(reference, options_.registry, outer);
}

Result<PullReport> Puller::pull(const Reference& reference, const RegistryOptions& how, CancelFlag* outer) {
  const TimePoint start = SystemClock::instance().now();
  CancelFlag flag(outer);  // a pull that fails ends its own threads, not those of others
  CancelFlag* const cancel = &flag;
  Registry registry(&http_, reference, how, cancel);
  auto image = resolve_image(&registry, reference, options_.platform, store_);
  if (!image.ok()) return image.error();
  auto layers = plan_layers(*image, options_.strict_media_types);
  if (!layers.ok()) return layers.error().with_context(reference.to_string());
  PullReport report;
  report.reference = reference.to_string();
  report.manifest = image->manifest_digest;
  report.platform = image->config.platform.to_string();
  report.mode = pull_mode_name(options_.settings.mode);
  report.seconds_to_manifest = seconds_since(start);
  ImageRecord record = record_of(reference, *image, options_.settings.mode, how.plain_http);

  ContentStore::Pin root_pin;
  std::optional<LazyImage> lazy;  // has what it fetched pinned
  if (options_.settings.mode == PullMode::kLazy) {
    lazy.emplace(&registry, store_, *image, options_.limits);
    GF_RETURN_IF_ERROR(lazy->prepare());
    for (const PlannedLayer& layer : *layers)
      report.layers.push_back({layer.blob.digest, layer.kind.foreign ? "foreign" : "lazy", layer.blob.size});
    record.extra = lazy->tables();
  } else {
    PullRun run(store_, options_, &registry, &downloads_, &unpacks_, cancel);
    for (const PlannedLayer& layer : *layers) {
      LayerReport row{layer.blob.digest, "present", layer.blob.size};
      if (layer.kind.foreign) {
        row.state = "foreign";
      } else {
        record.diffs.push_back(layer.diff);
        if (!store_->has_layer(layer.diff)) run.add(layer.blob, layer.diff, layer.kind);
      }
      report.layers.push_back(std::move(row));
    }
    record.chain = chain_id(record.diffs);
    root_pin = store_->pin({record.chain});
    RootBuilder root(store_, record.chain);
    GF_RETURN_IF_ERROR(run.run([&](const std::string& diff) { return root.add(diff); }, record.diffs));
    GF_RETURN_IF_ERROR(root.finish());
    report.rootfs = store_->rootfs_path(record.chain);
    for (const auto& job : run.jobs()) {
      for (LayerReport& row : report.layers) {
        if (row.digest != job->blob.digest || row.state != "present") continue;
        row.state = "pulled";
        row.tar_bytes = job->result.tar_bytes;
        row.files = job->result.counts.files;
        row.resumed = job->ingest != nullptr ? job->ingest->resumed() : 0;
        break;
      }
      report.unpacked_bytes += job->result.tar_bytes;
      report.files += job->result.counts.files;
      report.skipped_attributes += job->result.counts.skipped_attributes;
    }
  }
  GF_RETURN_IF_ERROR(store_->put_image(record));
  fill_stats(registry.stats(), &report);
  report.seconds = seconds_since(start);
  return report;
}

}  // namespace ghostfleet::image
