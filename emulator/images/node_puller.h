// NodePuller: the images of one node by the model: the kubelet's queue and its limits, then the transfers of the
// runtime over the fleet's stores (image_stores.h), then the node's disk with its garbage collection.
//
// A pull fetches the layers that are neither on the node nor on their way for another pull, and waits for the latter:
// every layer is fetched once. What pulls of one node do at the same time shares the node's card, disk and cores.
// Image rules with an error or a time go before the model.
// Thread rule: the node's thread. Ownership: service and host outlive it. It has no timer: everything it waits for is a
// transfer, told by on_transfer().
// Memory: about 250 bytes, 32 for each image on the node, 700 for each pull on its way (of an image of ten layers, its
// transfer included).
// Source: texts as of Kubernetes 1.36 and containerd 2.1.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent/pod/image_puller.h"
#include "agent/pod/pod_manager.h"
#include "base/token_bucket.h"
#include "emulator/images/image_disk.h"
#include "emulator/images/image_stores.h"
#include "emulator/images/pull_options.h"

namespace ghostfleet::emulator {

class PullService;

// What a puller asks of, and tells, its node.
class PullHost {
 public:
  virtual ~PullHost() = default;
  // A pull that was begun has ended; the puller keeps the result until it is taken. Never called from begin() or
  // end().
  virtual void pull_ended(agent::PullTicket ticket) = 0;
  // A read that was begun has ended; never called from begin_read().
  virtual void image_read(agent::ReadTicket, agent::ReadEnd) {}
  // Whether a container, running or ended, is of this image (named with registry and tag, or by id_of()).
  virtual bool image_in_use(std::string_view image) = 0;
  // Whether it is known which containers there are; false for a moment after the start.
  virtual bool pods_known() { return true; }
  // A Warning about the Node object.
  virtual void node_warning(std::string_view reason, const std::string& message) = 0;
  // What is on the disk has changed.
  virtual void images_changed() {}
  // Bytes of the disk that pods use.
  virtual int64_t storage_used() { return 0; }
};

class NodePuller final : public agent::ImagePuller {
 public:
  // `node` numbers it within the service.
  NodePuller(PullService& service, PullHost& host, std::shared_ptr<const PullOptions> options, uint32_t node,
             uint32_t zone);
  ~NodePuller() override;
  NodePuller(const NodePuller&) = delete;
  NodePuller& operator=(const NodePuller&) = delete;

  bool present(std::string_view image, TimePoint now) override;
  TimePoint begin(agent::PullTicket ticket, std::string_view image, TimePoint now) override;
  agent::PullResult end(agent::PullTicket ticket, std::string_view image, TimePoint now) override;
  void adopt(std::string_view image, TimePoint now) override;
  std::optional<agent::DiskRoom> disk_room() override;
  void remove_unused(TimePoint now) override;

  // Is there from the beginning, and stays.
  void preload(std::string_view image, int64_t size, TimePoint now);
  // Was pulled by an earlier agent; the host is not told.
  void restore(std::string_view image, TimePoint now);
  void on_transfer(uint32_t key, TimePoint at);

  const ImageDisk& disk() const { return disk_; }
  size_t pulling() const { return active_; }
  size_t queued() const { return queue_.size(); }

 private:
  enum class Stage : unsigned char { kQueued, kBusy, kWaiting, kEnded };
  struct Pull {
    uint32_t key = 0;
    Stage stage = Stage::kQueued;
    bool stalls = false;  // and fails when nothing has come for long enough
    bool stalled = false;
    bool by_rule = false;  // its end is a rule's
    agent::PullTicket ticket = 0;
    const agent::ImageRule* rule = nullptr;
    std::shared_ptr<const ImageInfo> image;
    std::vector<LayerInfo> claimed;  // on their way for this pull
    FlowModel::Id transfer = 0;
    double cap = 0, given = 0;  // 0: takes no bandwidth now
    double bytes = 0;           // of the transfer
    TimePoint begun;
    agent::PullResult result;  // with an error: it fails when its transfer ends
  };
  // A transfer that no pod waits for: the rest of a lazily pulled image.
  struct Background {
    uint32_t key = 0;
    FlowModel::Id transfer = 0;
    double cap = 0, given = 0, bytes = 0;
  };
  static constexpr uint32_t kCollectKey = 0;

  Pull* find(uint32_t key);
  void pump(TimePoint now);
  void start(Pull* pull, TimePoint now);
  void begin_fetching(Pull* pull, TimePoint now, Duration latency);
  std::vector<LayerInfo> free_layers(const Pull& pull, bool* others) const;
  void claim(Pull* pull, std::vector<LayerInfo> layers, TimePoint now, Duration lead);
  double bytes_to_move(const std::vector<LayerInfo>& layers) const;
  double share_that_fits(const std::vector<LayerInfo>& layers) const;
  void fail_later(Pull* pull, TimePoint now, Duration after, std::string text);
  void transfer_done(Pull* pull, TimePoint now);
  void proceed(Pull* pull, TimePoint now);
  void ended(Pull* pull, TimePoint now);
  void begin_background(const std::vector<LayerInfo>& layers, TimePoint now);
  void add_background(double bytes, double cap, Duration lead, TimePoint now);
  void share_node(TimePoint now);
  void background_done(size_t index, TimePoint now);
  void consider_collecting(TimePoint now);
  void collect(TimePoint now);
  double draw(uint32_t key, uint32_t what) const;

  PullService& service_;
  PullHost& host_;
  std::shared_ptr<const PullOptions> options_;
  ImageDisk disk_;
  TokenBucket qps_;
  std::vector<std::unique_ptr<Pull>> pulls_;  // until their results are taken
  std::vector<uint32_t> queue_;               // keys
  std::vector<Background> background_;
  std::vector<agent::PullTicket> to_tell_;
  uint32_t node_, zone_;
  uint32_t next_key_ = 1;
  uint32_t active_ = 0;
  bool collecting_ = false;  // garbage collection is armed
  CollectionNews news_;
};

}  // namespace ghostfleet::emulator
