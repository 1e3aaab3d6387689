// StorePuller: the images of ONE node, really pulled from their registries into a content store (docs/image-pull.md),
// as its pods and its Node's status see them. Nothing of an image is run.
//
// As a kubelet does, it looks every five minutes how full the file system of the store is, and takes images away
// (image_collection.h): none that a container is of, or that is being pulled. While they go nobody else may use the
// store, and pulls that begin wait.
//
// Thread rule: the node's loop; pulls run on threads of a PullPool, reads on those of an ImageReader, and what asks the
// disk on a SideThread; they come back by a post. Ownership: loop and host outlive it; the destructor cancels what is
// on its way. The store is held shared as long as this lives: others may pull into it, nobody else removes from it.
// Errors of pulls are told as a kubelet tells those of its runtime, around what the registry said.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/image/image_reader.h"
#include "agent/image/pull_pool.h"
#include "agent/pod/image_puller.h"
#include "base/event_loop.h"
#include "emulator/fleet/side_thread.h"
#include "emulator/images/image_collection.h"
#include "emulator/images/node_puller.h"

namespace ghostfleet::emulator {

// The file system that a store is on, in bytes.
struct DiskSpace {
  int64_t capacity = 0, available = 0;
};
Result<DiskSpace> disk_space(const std::string& folder);

struct ImageCollecting {
  CollectionRules rules;
  Duration period = kImageCollectionPeriod;
  std::function<Result<DiskSpace>()> space;  // asked on a thread of its own; null: nothing is collected
};

struct ImageStoreOptions {
  std::string folder;
  image::PullOptions pull;
  std::vector<std::string> plain_http;  // registries without TLS: HOST:PORT
  image::PullLimits limits;
  image::ReadSettings reads;
  CollectionRules collection;
  image::VerificationRules verification;
  // The docker config file that pull.registry.credentials came from, for reading it anew; DockerConfig::load().
  std::string docker_config;
};

class StorePuller final : public agent::ImagePuller {
 public:
  // An error names the folder.
  static Result<std::unique_ptr<StorePuller>> open(const ImageStoreOptions& options, EventLoop& loop);
  // The same from any source. `reader` and `records` are of that store; null: no image can be read, all are
  // everybody's.
  static Result<std::unique_ptr<StorePuller>> create(std::unique_ptr<image::ContentStore> store,
                                                     std::unique_ptr<image::ImageSource> source,
                                                     image::PullLimits limits, EventLoop& loop,
                                                     std::unique_ptr<image::ImageReader> reader = nullptr,
                                                     std::unique_ptr<image::PullRecords> records = nullptr);
  ~StorePuller() override;
  // Before the first begin().
  void set_host(PullHost* host) { host_ = host; }
  void collect(ImageCollecting how);

  bool present(std::string_view image, TimePoint now) override;
  TimePoint begin(agent::PullTicket ticket, std::string_view image, TimePoint now) override;
  agent::PullResult end(agent::PullTicket ticket, std::string_view image, TimePoint now) override;
  // What is not in the store is not there, whatever ran from it.
  void adopt(std::string_view, TimePoint) override {}
  bool real() const override { return true; }
  void give_secrets(agent::PullTicket ticket, std::vector<agent::PullSecret> secrets) override;
  bool open_to_all(std::string_view image) override;
  bool open_to(std::string_view image, const std::vector<agent::PullSecret>& secrets) override;
  std::string id_of(std::string_view image) override;
  void begin_read(agent::ReadTicket ticket, std::string_view image, std::string_view path,
                  std::vector<agent::PullSecret> secrets) override;

  // status.images of the Node: a JSON list.
  std::string images_json() const;

 private:
  StorePuller(std::unique_ptr<image::ContentStore> store, std::unique_ptr<image::ImageSource> source,
              std::unique_ptr<image::ImageReader> reader, std::unique_ptr<image::PullRecords> records,
              image::PullLimits limits, EventLoop& loop);
  const image::ImageRecord* find(std::string_view image);
  void take(const std::string& image, image::ImageRecord record);
  void ended(agent::PullTicket ticket, const std::string& image, image::PullOutcome outcome);
  void read_ended(agent::ReadTicket ticket, const Status& status);
  // A round of garbage collection, step by step.
  void look_at_disk();
  struct Look {
    Result<DiskSpace> space = Status();
    Result<std::vector<image::ImageRecord>> images = Status();
  };
  void looked(const Look& look);
  // An image and all its names.
  struct Held;
  std::vector<Held> held(TimePoint now);
  void remove(const std::vector<Held>& images);
  void removed(const Result<image::ContentStore::Collected>& what);
  void note_use(const image::ImageRecord& record, bool fresh);
  void post_back(std::function<void()> task);

  EventLoop& loop_;
  PullHost* host_ = nullptr;
  std::unique_ptr<image::ContentStore> store_;
  std::unique_ptr<image::PullRecords> records_;
  std::unique_ptr<image::ImageSource> source_;
  std::map<std::string, image::ImageRecord> images_;  // by reference; what is in the store, as far as it was seen
  std::map<agent::PullTicket, std::vector<image::PodSecret>> secrets_;
  // A pull that is on its way.
  struct OnWay {
    std::string image;
    std::vector<image::DockerConfig> users;  // for reading on
  };
  std::map<agent::PullTicket, OnWay> on_way_;
  std::map<agent::PullTicket, agent::PullResult> results_;      // until they are taken
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // on the loop
  struct Seen {
    TimePoint since, used;
  };
  std::map<std::string, Seen> seen_;  // by configuration, which is what a runtime's image is
  ImageCollecting collecting_;
  CollectionNews news_;
  bool removing_ = false;
  std::vector<std::pair<image::PullWork, image::PullPool::Done>> waiting_;  // until the removal is over
  std::unique_ptr<image::ImageReader> reader_;
  std::unique_ptr<image::PullPool> pool_;
  SideThread side_;
};

}  // namespace ghostfleet::emulator
