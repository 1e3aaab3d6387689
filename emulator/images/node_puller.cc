#include "emulator/images/node_puller.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "agent/pod/images.h"
#include "base/hash.h"
#include "emulator/images/pull_service.h"

namespace ghostfleet::emulator {
namespace {

// What luck decides.
enum Draw : uint32_t { kLatencyDraw, kStallDraw, kStallShareDraw, kDraws };

std::string pull_failure(std::string_view code, std::string_view image, std::string_view why) {
  return fmt::format("rpc error: code = {} desc = failed to pull and unpack image \"{}\": {}", code, image, why);
}

// Where the manifest is asked for.
std::string manifest_url(std::string_view image) {
  const size_t slash = image.find('/');
  const size_t at = image.find('@');
  const size_t cut = at != std::string_view::npos ? at : image.rfind(':');
  const std::string_view registry = image.substr(0, slash);
  return fmt::format("https://{}/v2/{}/manifests/{}", registry == "docker.io" ? "registry-1.docker.io" : registry,
                     image.substr(slash + 1, cut - slash - 1), image.substr(cut + 1));
}

std::string too_many_requests(std::string_view image) {
  return pull_failure("Unknown", image,
                      fmt::format("failed to resolve reference \"{}\": unexpected status from HEAD request to {}: "
                                  "429 Too Many Requests",
                                  image, manifest_url(image)));
}

std::string no_space(std::string_view image) {
  return pull_failure(
      "Unknown", image,
      fmt::format("failed to copy: write /var/lib/containerd/io.containerd.content.v1.content/ingest/{}/data: no space "
                  "left on device",
                  agent::made_up_digest(hash_text(image, 4))));
}

int64_t total(const std::vector<LayerInfo>& layers) {
  int64_t bytes = 0;
  for (const LayerInfo& layer : layers) bytes += layer.compressed;
  return bytes;
}

bool indexed(const LayerInfo& layer) { return layer.compressed >= kLeastIndexed; }

}  // namespace

NodePuller::NodePuller(PullService& service, PullHost& host, std::shared_ptr<const PullOptions> options, uint32_t node,
                       uint32_t zone)
    : service_(service),
      host_(host),
      options_(std::move(options)),
      disk_(*options_),
      qps_(options_->pull_qps, std::max(static_cast<double>(options_->pull_burst), 1.0)),
      node_(node),
      zone_(zone) {
  service_.nodes_[node_] = this;
}

NodePuller::~NodePuller() {
  service_.nodes_.erase(node_);
  service_.counts_.pulling -= active_;
  for (const auto& pull : pulls_) service_.counts_.stalled -= pull->stalled ? 1 : 0;
}

// ---- for the manager

bool NodePuller::present(std::string_view image, TimePoint now) {
  const agent::ImageRule* rule = service_.rule_of(image);
  if (rule != nullptr && !rule->error.empty()) return false;
  const std::string& name = service_.index().find(image)->name;
  disk_.use(name, now);
  return disk_.has(name);
}

TimePoint NodePuller::begin(agent::PullTicket ticket, std::string_view image, TimePoint now) {
  auto pull = std::make_unique<Pull>();
  pull->key = next_key_++;
  if (next_key_ == kCollectKey) ++next_key_;
  pull->ticket = ticket;
  pull->image = service_.index().find(image);
  pull->rule = service_.rule_of(image);
  queue_.push_back(pull->key);
  pulls_.push_back(std::move(pull));
  pump(now);
  return agent::kPullEndIsTold;
}

agent::PullResult NodePuller::end(agent::PullTicket ticket, std::string_view image, TimePoint) {
  const auto at = std::find_if(pulls_.begin(), pulls_.end(), [ticket](const auto& pull) {
    return pull->ticket == ticket && pull->stage == Stage::kEnded;
  });
  if (at == pulls_.end()) return {"context canceled", Duration(0), 0};
  agent::PullResult result = std::move((*at)->result);
  if ((*at)->by_rule) result.error = agent::NodeImages::pull_error(image, *(*at)->rule);
  pulls_.erase(at);
  return result;
}

void NodePuller::adopt(std::string_view image, TimePoint now) {
  std::shared_ptr<const ImageInfo> info = service_.index().find(image);
  if (disk_.has(info->name)) return;
  disk_.add(std::move(info), now);
  host_.images_changed();
  consider_collecting(now);
}

void NodePuller::restore(std::string_view image, TimePoint now) {
  disk_.add(service_.index().find(image), now);
  consider_collecting(now);
}

void NodePuller::preload(std::string_view image, int64_t size, TimePoint now) {
  disk_.add(service_.index().preloaded(image, size), now, true);
}

std::optional<agent::DiskRoom> NodePuller::disk_room() {
  disk_.set_used_by_pods(host_.storage_used());
  return agent::DiskRoom{disk_.capacity(), disk_.available(), disk_.used_by_images()};
}

void NodePuller::remove_unused(TimePoint now) {
  const size_t removed = disk_.remove_unused(now, [this](std::string_view image) { return host_.image_in_use(image); });
  service_.counts_.collected += removed;
  if (removed > 0) host_.images_changed();
}

// ---- the kubelet's queue

NodePuller::Pull* NodePuller::find(uint32_t key) {
  for (const auto& pull : pulls_) {
    if (pull->key == key) return pull.get();
  }
  return nullptr;
}

void NodePuller::pump(TimePoint now) {
  const int64_t most = options_->serialize ? 1 : options_->max_parallel > 0 ? options_->max_parallel : INT64_MAX;
  while (!queue_.empty() && static_cast<int64_t>(active_) < most) {
    Pull* pull = find(queue_.front());
    queue_.erase(queue_.begin());
    ++active_;
    ++service_.counts_.started;
    ++service_.counts_.pulling;
    start(pull, now);
  }
}

void NodePuller::start(Pull* pull, TimePoint now) {
  pull->begun = now;
  pull->stage = Stage::kBusy;
  const std::string& name = pull->image->name;
  if (!qps_.take(now)) {
    ++service_.counts_.over_qps;
    return fail_later(pull, now, Duration(0), "pull QPS exceeded");
  }
  const Duration latency = pull_latency(*options_, draw(pull->key, kLatencyDraw));
  const agent::ImageRule* rule = pull->rule;
  if (rule != nullptr && !rule->error.empty()) {
    ++service_.counts_.failed;
    pull->by_rule = true;
    return fail_later(pull, now, latency, rule->error);
  }
  if (rule != nullptr && rule->pull > Duration(0)) {
    pull->claimed = pull->image->layers;
    pull->transfer = service_.begin(node_, pull->key, now, {zone_, 0, 0, 0, 0, rule->pull});
    return;
  }
  ++service_.counts_.requests;
  if (!service_.stores().request(now, name)) {
    ++service_.counts_.refused;
    return fail_later(pull, now, latency, too_many_requests(name));
  }
  begin_fetching(pull, now, latency);
}

void NodePuller::fail_later(Pull* pull, TimePoint now, Duration after, std::string text) {
  pull->result.error = std::move(text);
  pull->transfer = service_.begin(node_, pull->key, now, {zone_, 0, 0, 0, 0, after});
}

// ---- the runtime's transfers

void NodePuller::begin_fetching(Pull* pull, TimePoint now, Duration latency) {
  bool others = false;
  std::vector<LayerInfo> layers = free_layers(*pull, &others);
  pull->stalls = !layers.empty() && draw(pull->key, kStallDraw) < options_->stalled_share;
  const Duration overhead = layers_overhead(*options_, layers.size());
  claim(pull, std::move(layers), now, latency + overhead);
}

// The layers that nobody has and nobody fetches; `others`: some are on their way for other pulls.
std::vector<LayerInfo> NodePuller::free_layers(const Pull& pull, bool* others) const {
  std::vector<LayerInfo> layers;
  for (const LayerInfo& layer : pull.image->layers) {
    if (disk_.has_layer(layer.id)) continue;
    const bool coming = std::any_of(pulls_.begin(), pulls_.end(), [&](const auto& other) {
      return std::any_of(other->claimed.begin(), other->claimed.end(),
                         [&](const LayerInfo& claimed) { return claimed.id == layer.id; });
    });
    *others = *others || coming;
    if (!coming) layers.push_back(layer);
  }
  return layers;
}

void NodePuller::claim(Pull* pull, std::vector<LayerInfo> layers, TimePoint now, Duration lead) {
  disk_.set_used_by_pods(host_.storage_used());
  double bytes = bytes_to_move(layers);
  const double fits = share_that_fits(layers);
  if (pull->stalls) {
    bytes *= draw(pull->key, kStallShareDraw);
  } else if (fits < 1) {
    bytes *= fits;
    ++service_.counts_.failed;
    pull->result.error = no_space(pull->image->name);
  }
  pull->claimed = std::move(layers);
  pull->cap = bytes > 0 ? pull_cap(*options_, pull->claimed.size()) : 0;
  pull->given = pull->cap;
  pull->bytes = bytes;
  pull->transfer = service_.begin(node_, pull->key, now, {zone_, 0, 0, bytes, pull->cap, lead});
  if (pull->cap > 0) share_node(now);
}

double NodePuller::bytes_to_move(const std::vector<LayerInfo>& layers) const {
  if (options_->puller != Puller::kLazy) return static_cast<double>(total(layers));
  double bytes = 0;
  for (const LayerInfo& layer : layers) {
    const auto size = static_cast<double>(layer.compressed);
    bytes += indexed(layer) ? size * kIndexShare + kSpan : size;
  }
  return bytes;
}

double NodePuller::share_that_fits(const std::vector<LayerInfo>& layers) const {
  int64_t needed = 0, promised = 0;
  for (const LayerInfo& layer : layers) needed += disk_.size_of(layer);
  for (const auto& other : pulls_) {
    for (const LayerInfo& layer : other->claimed) promised += disk_.size_of(layer);
  }
  const int64_t left = std::max<int64_t>(disk_.available() - promised, 0);
  return needed <= left ? 1 : static_cast<double>(left) / static_cast<double>(needed);
}

void NodePuller::on_transfer(uint32_t key, TimePoint at) {
  if (key == kCollectKey) return collect(at);
  for (size_t i = 0; i < background_.size(); ++i) {
    if (background_[i].key == key) return background_done(i, at);
  }
  if (Pull* pull = find(key)) transfer_done(pull, at);
  // The host may begin pulls and take results meanwhile.
  const std::vector<agent::PullTicket> tell = std::exchange(to_tell_, {});
  for (const agent::PullTicket ticket : tell) host_.pull_ended(ticket);
}

void NodePuller::transfer_done(Pull* pull, TimePoint now) {
  pull->transfer = 0;
  const bool moved = std::exchange(pull->cap, 0) > 0;
  if (moved) service_.counts_.bytes += static_cast<uint64_t>(pull->bytes);
  const std::vector<LayerInfo> claimed = std::exchange(pull->claimed, {});
  if (pull->stalls && !pull->stalled) {
    pull->claimed = claimed;
    pull->stalled = true;
    ++service_.counts_.stalled;
    fail_later(pull, now, options_->progress_timeout, pull_failure("Canceled", pull->image->name, "context canceled"));
  } else if (!pull->result.error.empty()) {
    ended(pull, now);
  } else {
    disk_.add_loose(claimed);
    if (options_->puller == Puller::kLazy && moved) begin_background(claimed, now);
    proceed(pull, now);
  }
  for (const auto& other : pulls_) {
    if (other->stage == Stage::kWaiting && other.get() != pull) proceed(other.get(), now);
  }
  if (moved) share_node(now);
  if (active_ == 0) disk_.drop_loose();
  pump(now);
}

// Its own transfer is over: whether it has everything, or somebody else's has to be waited for, or done in its place.
void NodePuller::proceed(Pull* pull, TimePoint now) {
  bool others = false;
  std::vector<LayerInfo> layers = free_layers(*pull, &others);
  if (!layers.empty()) {
    pull->stage = Stage::kBusy;
    return claim(pull, std::move(layers), now, Duration(0));
  }
  pull->stage = Stage::kWaiting;
  if (!others) ended(pull, now);
}

void NodePuller::ended(Pull* pull, TimePoint now) {
  pull->stage = Stage::kEnded;
  pull->result.own = now - pull->begun;
  pull->result.size_bytes = pull->image->compressed;
  if (std::exchange(pull->stalled, false)) {
    --service_.counts_.stalled;
    ++service_.counts_.failed;
  }
  --active_;
  --service_.counts_.pulling;
  to_tell_.push_back(pull->ticket);
  if (!pull->result.error.empty()) return;
  ++service_.counts_.succeeded;
  if (service_.durations_ != nullptr) service_.durations_->record(pull->result.own);
  if (disk_.has(pull->image->name)) return disk_.use(pull->image->name, now);
  disk_.add(pull->image, now);
  host_.images_changed();
  consider_collecting(now);
}

// ---- lazily pulled images

void NodePuller::begin_background(const std::vector<LayerInfo>& layers, TimePoint now) {
  double bytes = 0;
  for (const LayerInfo& layer : layers) bytes += indexed(layer) ? static_cast<double>(layer.compressed) : 0;
  if (bytes <= 0) return;
  add_background(bytes * options_->first_use, first_use_rate(*options_), Duration(0), now);
  add_background(bytes * (1 - options_->first_use), kBackgroundRate, kBackgroundDelay, now);
}

void NodePuller::add_background(double bytes, double cap, Duration lead, TimePoint now) {
  if (bytes <= 0) return;
  const uint32_t key = next_key_++;
  if (next_key_ == kCollectKey) ++next_key_;
  const FlowModel::Id id = service_.begin(node_, key, now, {zone_, 0, 0, bytes, cap, lead});
  background_.push_back({key, id, cap, cap, bytes});
}

void NodePuller::background_done(size_t index, TimePoint now) {
  service_.counts_.bytes += static_cast<uint64_t>(background_[index].bytes);
  background_.erase(background_.begin() + static_cast<std::ptrdiff_t>(index));
  share_node(now);
}

// ---- the machine

// Its card, disk and cores are shared by what comes at the same time.
void NodePuller::share_node(TimePoint now) {
  struct Share {
    FlowModel::Id transfer;
    double* given;
  };
  std::vector<Share> shares;
  std::vector<double> caps;
  for (const auto& pull : pulls_) {
    if (pull->cap <= 0) continue;
    shares.push_back({pull->transfer, &pull->given});
    caps.push_back(pull->cap);
  }
  for (Background& one : background_) {
    shares.push_back({one.transfer, &one.given});
    caps.push_back(one.cap);
  }
  const double level = level_of(node_cap(*options_), caps.data(), caps.size());
  for (size_t i = 0; i < shares.size(); ++i) {
    const double cap = std::min(caps[i], level);
    if (cap == *shares[i].given) continue;
    *shares[i].given = cap;
    service_.stores().set_cap(now, shares[i].transfer, cap);
  }
}

void NodePuller::consider_collecting(TimePoint now) {
  disk_.set_used_by_pods(host_.storage_used());
  if (collecting_ || options_->gc_high_percent >= 100 || !disk_.above_threshold()) return;
  collecting_ = true;
  // A kubelet looks every five minutes from its start on.
  const auto phase =
      static_cast<int64_t>(hash_mix(service_.seed_, node_) % static_cast<uint64_t>(kImageCollectionPeriod.count()));
  const Duration until = kImageCollectionPeriod - Duration((now.ns + phase) % kImageCollectionPeriod.count());
  service_.begin(node_, kCollectKey, now, {zone_, 0, 0, 0, 0, until});
}

void NodePuller::collect(TimePoint now) {
  collecting_ = false;
  disk_.set_used_by_pods(host_.storage_used());
  const ImageCollection round =
      disk_.collect(now, [this](std::string_view image) { return host_.image_in_use(image); });
  service_.counts_.collected += round.removed;
  news_.round(round.failure,
              [this](std::string_view reason, const std::string& message) { host_.node_warning(reason, message); });
  if (round.removed > 0) host_.images_changed();
  consider_collecting(now);
}

double NodePuller::draw(uint32_t key, uint32_t what) const {
  // Mixed once more: keys that follow each other would be drawn alike, and a pull that stalls would do so each time.
  const uint64_t near = hash_mix(hash_mix(service_.seed_, node_), uint64_t{key} * kDraws + what);
  const uint64_t h = hash_mix(near, near);
  return static_cast<double>(h >> 11) / 9007199254740992.0;
}

}  // namespace ghostfleet::emulator
