#include "emulator/fleet/store_puller.h"

#include <fmt/format.h>

#include <algorithm>
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
  auto source = std::make_unique<image::RegistrySource>(store->get(), options.pull, options.plain_http, users);
  auto reader =
      std::make_unique<image::ImageReader>(store->get(), options.pull, options.plain_http, users, options.reads);
  return create(std::move(*store), std::move(source), options.limits, loop, std::move(reader));
}

Result<std::unique_ptr<StorePuller>> StorePuller::create(std::unique_ptr<image::ContentStore> store,
                                                         std::unique_ptr<image::ImageSource> source,
                                                         image::PullLimits limits, EventLoop& loop,
                                                         std::unique_ptr<image::ImageReader> reader) {
  auto records = store->images();
  if (!records.ok()) return records.error().with_context("image store");
  std::unique_ptr<StorePuller> out(
      new StorePuller(std::move(store), std::move(source), std::move(reader), limits, loop));
  for (image::ImageRecord& record : *records) {
    if (out->reader_) out->reader_->fetch_rest(record, {});
    std::string name = record.reference;
    out->images_.insert_or_assign(std::move(name), std::move(record));
  }
  return out;
}

StorePuller::StorePuller(std::unique_ptr<image::ContentStore> store, std::unique_ptr<image::ImageSource> source,
                         std::unique_ptr<image::ImageReader> reader, image::PullLimits limits, EventLoop& loop)
    : loop_(loop),
      store_(std::move(store)),
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
  if (const auto it = images_.find(name); it != images_.end()) return &it->second;
  for (const auto& [other, record] : images_) {
    const auto of = image::parse_reference(other);
    const bool same = of.ok() && of->registry == reference->registry && of->repository == reference->repository;
    if (same && (record.manifest == reference->digest || record.target == reference->digest)) return &record;
  }
  auto record = store_->find_image(name);  // somebody else has pulled it since
  if (!record.ok()) return nullptr;
  return &images_.insert_or_assign(name, std::move(*record)).first->second;
}

bool StorePuller::present(std::string_view image, TimePoint) { return find(image) != nullptr; }

namespace {

std::vector<image::DockerConfig> parse_configs(const std::vector<std::string>& configs) {
  std::vector<image::DockerConfig> users;
  for (const std::string& text : configs) {
    if (text.empty()) continue;
    auto config = image::DockerConfig::parse(text);
    if (config.ok()) {
      users.push_back(std::move(*config));
    } else {
      log_warn("image", "a pull secret that cannot be read is passed over");
    }
  }
  return users;
}

// `status` of a read.
agent::ReadEnd read_end(const Status& status) {
  if (status.ok()) return agent::ReadEnd::kRead;
  if (status.code() == Code::kNotFound) return agent::ReadEnd::kNoSuchFile;
  return status.code() == Code::kInvalidArgument ? agent::ReadEnd::kNotReadable : agent::ReadEnd::kInputOutput;
}

}  // namespace

void StorePuller::give_secrets(agent::PullTicket ticket, std::vector<std::string> configs) {
  secrets_[ticket] = parse_configs(configs);
}

void StorePuller::begin_read(agent::ReadTicket ticket, std::string_view image, std::string_view path,
                             std::vector<std::string> configs) {
  const image::ImageRecord* record = find(image);
  auto done = [this, alive = alive_, ticket](Status status) {
    loop_.post([this, alive, ticket, status = std::move(status)] {
      if (*alive) read_ended(ticket, status);
    });
  };
  if (record == nullptr || !reader_)
    return done(Status(Code::kDataLoss, fmt::format("image {} is not in the store", image)));
  reader_->submit({*record, std::string(path), parse_configs(configs)}, std::move(done));
}

void StorePuller::read_ended(agent::ReadTicket ticket, const Status& status) {
  host_->image_read(ticket, read_end(status));
}

TimePoint StorePuller::begin(agent::PullTicket ticket, std::string_view image, TimePoint) {
  const auto given = secrets_.find(ticket);
  std::vector<image::DockerConfig> users;
  if (given != secrets_.end()) {
    users = std::move(given->second);
    secrets_.erase(given);
  }
  auto reference = image::parse_reference(image);
  if (!reference.ok()) {
    loop_.post([this, alive = alive_, ticket, name = std::string(image), why = reference.error()] {
      if (*alive) ended(ticket, name, {why, Duration(0)});
    });
    return agent::kPullEndIsTold;
  }
  std::string name = reference->to_string();
  used_[ticket] = users;
  auto done = [this, alive = alive_, ticket, name](image::PullOutcome outcome) {
    loop_.post([this, alive, ticket, name, outcome = std::move(outcome)] {
      if (*alive) ended(ticket, name, outcome);
    });
  };
  pool_->submit({std::move(*reference), std::move(users)}, std::move(done));
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
  if (const auto it = used_.find(ticket); it != used_.end()) users = std::move(used_.extract(it).mapped());
  if (outcome.image.ok()) {
    result.size_bytes = static_cast<int64_t>(outcome.image->size);
    if (reader_) reader_->fetch_rest(*outcome.image, std::move(users));
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
