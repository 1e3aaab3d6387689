// Image pulls of a shard's nodes: modelled (docs/images.md), or real ones of a single node (docs/image-pull.md).
#include <algorithm>

#include "emulator/fleet/shard_hosts.h"
#include "emulator/images/node_images.h"

namespace ghostfleet::emulator {

Status Shard::open_image_store() {
  if (config_.image_store == nullptr) return Status();
  if (config_.names->size() != 1 || pulls_)
    return invalid_argument("image store: images are really pulled for a single node, and without a model of pulls");
  auto store = StorePuller::open(*config_.image_store, loop_);
  if (!store.ok()) return store.error();
  store_ = std::move(*store);
  give_puller(0, pods_of(0));  // its images are looked after without pods, too
  return Status();
}

// The images of a node are told apart once it has pods, or was found with some that it had pulled.
void Shard::give_puller(uint32_t row, NodePods& pods) {
  if (store_) {
    store_->set_host(&pods.host);
    pods.facts.puller = store_.get();
  }
  if (!pulls_ || pods.puller) return;
  const uint32_t node = node_of(row);
  const uint32_t zone = pulls_->images.stores.zone(config_.names->identity(node).zone);
  const uint32_t group = config_.names->group_of(node);
  pods.puller = std::make_unique<NodePuller>(pulls_->service, pods.host, pulls_->images.options[group], row, zone);
  pods.facts.puller = pods.puller.get();
  for (const agent::NodeImage& image : class_of(row).node_template().images) {
    if (!image.names.empty()) pods.puller->preload(image.names.front(), image.size_bytes, loop_.now());
  }
}

// A Node that was there before: what it has pulled is on its disk. Later its own word counts.
void Shard::restore_images(uint32_t row, std::string_view node_json) {
  if (!pulls_ || (std::exchange(flags_[row], flags_[row] | kImagesRead) & kImagesRead) != 0) return;
  const std::vector<agent::NodeImage>& given = class_of(row).node_template().images;
  const auto came_with_it = [&](const std::string& name) {
    return std::any_of(given.begin(), given.end(), [&](const agent::NodeImage& image) {
      return std::find(image.names.begin(), image.names.end(), name) != image.names.end();
    });
  };
  for (const std::string& name : images_of_node(node_json)) {
    if (came_with_it(name)) continue;
    NodePods& pods = pods_of(row);
    give_puller(row, pods);
    pods.puller->restore(name, loop_.now());
  }
}

TimePoint Shard::look_at_pulls(TimePoint now) {
  if (!pulls_) return FlowModel::kNever;
  pulls_->service.poll(now, kMostPullsAtOnce);
  if (pulls_->service.behind()) return now;
  return pulls_->service.idle() ? FlowModel::kNever : now + kPullLook;
}

void Shard::add_pulls_to(FleetStats* out) const {
  if (pulls_) pulls_->stats.add_to(out);
}

std::string Shard::images_of(uint32_t row) const {
  if (store_) return store_->images_json();
  const auto it = pods_.find(row);
  if (it == pods_.end() || !it->second->puller) return {};
  return node_images_json(it->second->puller->disk(), class_of(row).node_template().images);
}

void Shard::PodHost::pull_ended(agent::PullTicket ticket) {
  NodePods& pods = shard_.pods_of(row_);
  if (!pods.manager) return;
  pods.manager->on_image_pulled(ticket);
  shard_.count_pods(pods);
}

void Shard::PodHost::image_read(agent::ReadTicket ticket, agent::ReadEnd end) {
  NodePods& pods = shard_.pods_of(row_);
  if (pods.manager) pods.manager->on_image_read(ticket, end);
}

bool Shard::PodHost::image_in_use(std::string_view image) {
  const NodePods& pods = shard_.pods_of(row_);
  return pods.manager && pods.manager->uses_image(image);
}

bool Shard::PodHost::pods_known() { return shard_.pods_told(row_) && shard_.pods_of(row_).pending.empty(); }

void Shard::PodHost::node_warning(std::string_view reason, const std::string& message) {
  shard_.machines_[row_].warn(shard_.host(row_), reason, message);
}

void Shard::PodHost::images_changed() {
  shard_.machines_[row_].images_changed(shard_.host(row_));
  const NodePods& pods = shard_.pods_of(row_);
  if (pods.manager) pods.manager->on_images_changed();
}

int64_t Shard::PodHost::storage_used() {
  const NodePods& pods = shard_.pods_of(row_);
  return pods.manager ? pods.manager->storage_used() : 0;
}

}  // namespace ghostfleet::emulator
