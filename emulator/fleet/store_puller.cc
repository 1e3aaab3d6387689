#include "emulator/fleet/store_puller.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/log.h"
#include "emulator/images/node_images.h"

namespace ghostfleet::emulator {
namespace {

constexpr size_t kMostNames = 5;  // a kubelet's MaxNamesPerImageInNodeStatus

// The gRPC code that containerd gives an error of that kind.
std::string_view runtime_code(Code code) {
  switch (code) {
    case Code::kNotFound: return "NotFound";
    case Code::kCancelled: return "Canceled";
    case Code::kDeadlineExceeded: return "DeadlineExceeded";
    default: return "Unknown";
  }
}

std::string pull_error(const std::string& image, const Status& why) {
  return fmt::format("rpc error: code = {} desc = failed to pull and unpack image \"{}\": {}", runtime_code(why.code()),
                     image, why.message());
}

const std::string& digest_of(const image::ImageRecord& record) {
  return record.target.empty() ? record.manifest : record.target;
}

std::string by_digest(const image::Reference& reference, const image::ImageRecord& record) {
  return fmt::format("{}/{}@{}", reference.registry, reference.repository, digest_of(record));
}

// The digest comes before the tag, as in a kubelet's.
void add_names(const image::ImageRecord& record, agent::NodeImage* out) {
  const auto reference = image::parse_reference(record.reference);
  if (!reference.ok()) return;
  const auto add = [out](std::string name, bool first) {
    std::vector<std::string>& names = out->names;
    if (names.size() >= kMostNames || std::find(names.begin(), names.end(), name) != names.end()) return;
    names.insert(first ? names.begin() : names.end(), std::move(name));
  };
  add(by_digest(*reference, record), true);
  if (reference->digest.empty()) add(reference->to_string(), false);
}

}  // namespace

Result<std::unique_ptr<StorePuller>> StorePuller::open(const ImageStoreOptions& options, EventLoop& loop) {
  auto store = image::ContentStore::open(options.folder, image::ContentStore::Lock::kShared);
  if (!store.ok()) return store.error();
  const auto file = std::make_shared<image::UsersFile>(options.docker_config, options.pull.registry.credentials);
  const image::UserSource users = [file] { return file->read(); };
  auto images = (*store)->images();
  if (!images.ok()) return images.error().with_context("image store");
  auto records = image::PullRecords::open(options.folder, options.verification, *images);
  if (!records.ok()) return records.error();
  auto source =
      std::make_unique<image::RegistrySource>(store->get(), options.pull, options.plain_http, users, records->get());
  auto reader =
      std::make_unique<image::ImageReader>(store->get(), options.pull, options.plain_http, users, options.reads);
  auto puller =
      create(std::move(*store), std::move(source), options.limits, loop, std::move(reader), std::move(*records));
  if (puller.ok())
    (*puller)->collect(
        {options.collection, kImageCollectionPeriod, [folder = options.folder] { return disk_space(folder); }});
  return puller;
}

Result<std::unique_ptr<StorePuller>> StorePuller::create(std::unique_ptr<image::ContentStore> store,
                                                         std::unique_ptr<image::ImageSource> source,
                                                         image::PullLimits limits, EventLoop& loop,
                                                         std::unique_ptr<image::ImageReader> reader,
                                                         std::unique_ptr<image::PullRecords> records) {
  auto images = store->images();
  if (!images.ok()) return images.error().with_context("image store");
  std::unique_ptr<StorePuller> out(
      new StorePuller(std::move(store), std::move(source), std::move(reader), std::move(records), limits, loop));
  for (image::ImageRecord& record : *images) {
    if (out->reader_) out->reader_->fetch_rest(record, {});
    out->seen_[record.config] = {};  // long ago
    std::string name = record.reference;
    out->images_.insert_or_assign(std::move(name), std::move(record));
  }
  return out;
}

StorePuller::StorePuller(std::unique_ptr<image::ContentStore> store, std::unique_ptr<image::ImageSource> source,
                         std::unique_ptr<image::ImageReader> reader, std::unique_ptr<image::PullRecords> records,
                         image::PullLimits limits, EventLoop& loop)
    : loop_(loop),
      store_(std::move(store)),
      records_(std::move(records)),
      source_(std::move(source)),
      reader_(std::move(reader)),
      pool_(std::make_unique<image::PullPool>(source_.get(), limits)) {}

StorePuller::~StorePuller() {
  pool_.reset();  // nothing is posted any more
  reader_.reset();
  *alive_ = false;
}

// By its name; by its digest also when it was pulled by another name of its repository.
const image::ImageRecord* StorePuller::find(std::string_view image) {
  const auto reference = image::parse_reference(image);
  if (!reference.ok()) return nullptr;
  const std::string name = reference->to_string();
  if (const auto it = images_.find(name); it != images_.end()) {
    note_use(it->second, false);
    return &it->second;
  }
  for (const auto& [other, record] : images_) {
    const auto of = image::parse_reference(other);
    const bool same = of.ok() && of->registry == reference->registry && of->repository == reference->repository;
    if (!same || (record.manifest != reference->digest && record.target != reference->digest)) continue;
    note_use(record, false);
    return &record;
  }
  auto record = store_->find_image(name);  // somebody else has pulled it since
  if (!record.ok()) return nullptr;
  note_use(*record, true);
  return &images_.insert_or_assign(name, std::move(*record)).first->second;
}

bool StorePuller::present(std::string_view image, TimePoint) { return find(image) != nullptr; }

namespace {

std::vector<image::PodSecret> parse_secrets(const std::vector<agent::PullSecret>& secrets) {
  std::vector<image::PodSecret> out;
  for (const agent::PullSecret& secret : secrets) {
    if (secret.config.empty()) continue;
    auto config = image::DockerConfig::parse(secret.config);
    if (config.ok()) {
      out.push_back({{secret.ns, secret.name, secret.uid}, std::move(*config)});
    } else {
      log_warn("image", "a pull secret that cannot be read is passed over");
    }
  }
  return out;
}

std::vector<image::DockerConfig> configs_of(const std::vector<image::PodSecret>& secrets) {
  std::vector<image::DockerConfig> out;
  for (const image::PodSecret& secret : secrets) out.push_back(secret.config);
  return out;
}

// `status` of a read.
agent::ReadEnd read_end(const Status& status) {
  if (status.ok()) return agent::ReadEnd::kRead;
  if (status.code() == Code::kNotFound) return agent::ReadEnd::kNoSuchFile;
  return status.code() == Code::kInvalidArgument ? agent::ReadEnd::kNotReadable : agent::ReadEnd::kInputOutput;
}

}  // namespace

void StorePuller::give_secrets(agent::PullTicket ticket, std::vector<agent::PullSecret> secrets) {
  secrets_[ticket] = parse_secrets(secrets);
}

bool StorePuller::open_to_all(std::string_view image) {
  const image::ImageRecord* record = find(image);
  const auto reference = image::parse_reference(image);
  return !records_ || record == nullptr || !reference.ok() || records_->open_to_all(*reference, *record);
}

bool StorePuller::open_to(std::string_view image, const std::vector<agent::PullSecret>& secrets) {
  const image::ImageRecord* record = find(image);
  const auto reference = image::parse_reference(image);
  if (!records_ || record == nullptr || !reference.ok()) return true;
  return records_->open_to(*reference, *record, parse_secrets(secrets));
}

void StorePuller::begin_read(agent::ReadTicket ticket, std::string_view image, std::string_view path,
                             std::vector<agent::PullSecret> secrets) {
  const image::ImageRecord* record = find(image);
  auto done = [this, ticket](Status status) {
    post_back([this, ticket, status = std::move(status)] { read_ended(ticket, status); });
  };
  if (record == nullptr || !reader_)
    return done(Status(Code::kDataLoss, fmt::format("image {} is not in the store", image)));
  reader_->submit({*record, std::string(path), configs_of(parse_secrets(secrets))}, std::move(done));
}

void StorePuller::read_ended(agent::ReadTicket ticket, const Status& status) {
  host_->image_read(ticket, read_end(status));
}

TimePoint StorePuller::begin(agent::PullTicket ticket, std::string_view image, TimePoint) {
  const auto given = secrets_.find(ticket);
  std::vector<image::PodSecret> users;
  if (given != secrets_.end()) {
    users = std::move(given->second);
    secrets_.erase(given);
  }
  auto reference = image::parse_reference(image);
  if (!reference.ok()) {
    post_back([this, ticket, name = std::string(image), why = reference.error()] {
      ended(ticket, name, {why, Duration(0)});
    });
    return agent::kPullEndIsTold;
  }
  std::string name = reference->to_string();
  on_way_[ticket] = {name, configs_of(users)};
  auto done = [this, ticket, name](image::PullOutcome outcome) {
    post_back([this, ticket, name, outcome = std::move(outcome)] { ended(ticket, name, outcome); });
  };
  image::PullWork work{std::move(*reference), std::move(users)};
  if (removing_) {
    waiting_.emplace_back(std::move(work), std::move(done));
  } else {
    pool_->submit(std::move(work), std::move(done));
  }
  return agent::kPullEndIsTold;
}

void StorePuller::take(const std::string& image, image::ImageRecord record) {
  const auto it = images_.find(image);
  if (it != images_.end() && it->second.target != record.target) {
    image::ImageRecord old = image::untagged(it->second);
    std::string name = old.reference;
    if (!name.empty()) images_.insert_or_assign(std::move(name), std::move(old));
  }
  images_.insert_or_assign(image, std::move(record));
}

void StorePuller::ended(agent::PullTicket ticket, const std::string& image, image::PullOutcome outcome) {
  agent::PullResult& result = results_[ticket];
  result = {{}, outcome.own, 0};
  std::vector<image::DockerConfig> users;
  if (const auto it = on_way_.find(ticket); it != on_way_.end()) users = std::move(on_way_.extract(it).mapped().users);
  if (outcome.image.ok()) {
    result.size_bytes = static_cast<int64_t>(outcome.image->size);
    if (reader_) reader_->fetch_rest(*outcome.image, std::move(users));
    note_use(*outcome.image, true);
    take(image, std::move(*outcome.image));
    host_->images_changed();
  } else if (outcome.over_rate) {
    result.error = outcome.image.error().message();
  } else {
    result.error = pull_error(image, outcome.image.error());
  }
  host_->pull_ended(ticket);
}

agent::PullResult StorePuller::end(agent::PullTicket ticket, std::string_view, TimePoint) {
  const auto it = results_.find(ticket);
  if (it == results_.end()) return {"context canceled", Duration(0), 0};
  agent::PullResult result = std::move(it->second);
  results_.erase(it);
  return result;
}

std::string StorePuller::id_of(std::string_view image) {
  const image::ImageRecord* record = find(image);
  const auto reference = image::parse_reference(image);
  return record == nullptr || !reference.ok() ? std::string() : by_digest(*reference, *record);
}

// ---- garbage collection

Result<DiskSpace> disk_space(const std::string& folder) {
  struct statvfs info {};
  if (statvfs(folder.c_str(), &info) != 0) return system_status("file system of " + folder, errno);
  const auto bytes = [&](auto blocks) { return static_cast<int64_t>(blocks) * static_cast<int64_t>(info.f_frsize); };
  return DiskSpace{bytes(info.f_blocks), bytes(info.f_bavail)};
}

struct StorePuller::Held {
  std::string config;
  std::vector<const image::ImageRecord*> records;
  int64_t size = 0;
};

void StorePuller::collect(ImageCollecting how) {
  collecting_ = std::move(how);
  if (!collecting_.space || collecting_.rules.high_percent >= 100) return;
  loop_.run_after(collecting_.period, [this, alive = alive_] {
    if (*alive) look_at_disk();
  });
}

void StorePuller::note_use(const image::ImageRecord& record, bool fresh) {
  const TimePoint now = loop_.now();
  const auto [it, first] = seen_.try_emplace(record.config);
  if (first && fresh) it->second.since = now;
  it->second.used = now;
}

void StorePuller::post_back(std::function<void()> task) {
  loop_.post([alive = alive_, task = std::move(task)] {
    if (*alive) task();
  });
}

void StorePuller::look_at_disk() {
  collect(std::move(collecting_));
  if (host_ == nullptr || !host_->pods_known() || removing_) return;
  side_.run([this, space = collecting_.space] {
    Look look{space(), store_->images()};
    post_back([this, look = std::move(look)] { looked(look); });
  });
}

std::vector<StorePuller::Held> StorePuller::held(TimePoint now) {
  std::map<std::string, Held> images;
  for (const auto& [name, record] : images_) {
    Held& image = images[record.config];
    image.config = record.config;
    image.records.push_back(&record);
    image.size = std::max(image.size, static_cast<int64_t>(record.size));
    const auto reference = image::parse_reference(name);
    const bool pulled = std::any_of(on_way_.begin(), on_way_.end(),
                                    [&name = name](const auto& one) { return one.second.image == name; });
    const bool used =
        pulled || host_->image_in_use(name) || (reference.ok() && host_->image_in_use(by_digest(*reference, record)));
    if (used) seen_[record.config].used = now;
  }
  std::vector<Held> out;
  for (auto& [config, image] : images) out.push_back(std::move(image));
  return out;
}

void StorePuller::looked(const Look& look) {
  if (!look.space.ok() || !look.images.ok() || removing_) {
    const Status& why = look.space.ok() ? look.images.error() : look.space.error();
    if (!removing_) log_warn("image", "garbage collection: " + why.message());
    return;
  }
  const TimePoint now = loop_.now();
  for (const image::ImageRecord& record : *look.images) {  // others may have pulled
    if (!images_.contains(record.reference)) images_.emplace(record.reference, record);
    if (!seen_.contains(record.config)) seen_[record.config] = {now, now};
  }
  const int64_t wanted = bytes_to_free(collecting_.rules, look.space->capacity, look.space->available);
  const auto warn = [this](std::string_view reason, const std::string& text) { host_->node_warning(reason, text); };
  if (wanted == 0) return news_.round({}, warn);
  const std::vector<Held> all = held(now);
  std::vector<Collectable> list;
  for (const Held& image : all) list.push_back({image.size, seen_[image.config].since, seen_[image.config].used});
  const ChosenImages chosen = choose_images(list, now, collecting_.rules.minimum_age, wanted);
  news_.round(collection_failure(wanted, chosen.freed), warn);
  std::vector<Held> gone;
  for (const size_t i : chosen.images) gone.push_back(all[i]);
  if (!gone.empty()) remove(gone);
}

void StorePuller::remove(const std::vector<Held>& images) {
  std::vector<std::string> names, configs;
  for (const Held& image : images) {
    configs.push_back(image.config);
    for (const image::ImageRecord* record : image.records) {
      names.push_back(record->reference);
      if (reader_) reader_->forget(record->manifest);
    }
    seen_.erase(image.config);
  }
  for (const std::string& name : names) images_.erase(name);
  log_info("image", fmt::format("garbage collection: {} images go: {}", images.size(), fmt::join(names, ", ")));
  removing_ = true;
  side_.run([this, names = std::move(names), configs = std::move(configs)] {
    auto what = store_->remove_images(names);
    if (what.ok() && records_) {
      for (const std::string& config : configs) records_->forget(config);
    }
    post_back([this, what = std::move(what)] { removed(what); });
  });
}

void StorePuller::removed(const Result<image::ContentStore::Collected>& what) {
  removing_ = false;
  // What could not be removed is seen again with the next round.
  if (!what.ok()) log_warn("image", "garbage collection: " + what.error().message());
  for (auto& [work, done] : std::exchange(waiting_, {})) pool_->submit(std::move(work), std::move(done));
  host_->images_changed();
}

std::string StorePuller::images_json() const {
  std::map<std::string, agent::NodeImage> images;  // by configuration, which is what a runtime's image is
  for (const auto& [name, record] : images_) {
    agent::NodeImage& image = images[record.config];
    image.size_bytes = std::max(image.size_bytes, static_cast<int64_t>(record.size));
    add_names(record, &image);
  }
  std::vector<agent::NodeImage> list;
  for (auto& [config, image] : images) list.push_back(std::move(image));
  return node_images_json(std::move(list));
}

}  // namespace ghostfleet::emulator
