// StorePuller: the images of ONE node, really pulled from their registries into a content store (docs/image-pull.md),
// as its pods and its Node's status see them. Nothing of an image is run.
//
// Thread rule: the node's loop; pulls run on threads of a PullPool and come back by a post. Ownership: loop and host
// outlive it; the destructor cancels what is on its way. The store is held shared as long as this lives: others may
// pull into it, nobody removes from it.
// Errors of pulls are told as a kubelet tells those of its runtime, around what the registry said.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent/image/image_reader.h"
#include "agent/image/pull_pool.h"
#include "agent/pod/image_puller.h"
#include "base/event_loop.h"
#include "emulator/images/node_puller.h"

namespace ghostfleet::emulator {

struct ImageStoreOptions {
  std::string folder;
  image::PullOptions pull;
  std::vector<std::string> plain_http;  // registries without TLS: HOST:PORT
  image::PullLimits limits;
  image::ReadSettings reads;
  // The docker config file that pull.registry.credentials came from, for reading it anew; DockerConfig::load().
  std::string docker_config;
};

class StorePuller final : public agent::ImagePuller {
 public:
  // An error names the folder.
  static Result<std::unique_ptr<StorePuller>> open(const ImageStoreOptions& options, EventLoop& loop);
  // The same from any source. `reader` is of that store; null: no image can be read.
  static Result<std::unique_ptr<StorePuller>> create(std::unique_ptr<image::ContentStore> store,
                                                     std::unique_ptr<image::ImageSource> source,
                                                     image::PullLimits limits, EventLoop& loop,
                                                     std::unique_ptr<image::ImageReader> reader = nullptr);
  ~StorePuller() override;
  // Before the first begin().
  void set_host(PullHost* host) { host_ = host; }

  bool present(std::string_view image, TimePoint now) override;
  TimePoint begin(agent::PullTicket ticket, std::string_view image, TimePoint now) override;
  agent::PullResult end(agent::PullTicket ticket, std::string_view image, TimePoint now) override;
  // What is not in the store is not there, whatever ran from it.
  void adopt(std::string_view, TimePoint) override {}
  bool real() const override { return true; }
  void give_secrets(agent::PullTicket ticket, std::vector<std::string> configs) override;
  std::string id_of(std::string_view image) override;
  void begin_read(agent::ReadTicket ticket, std::string_view image, std::string_view path,
                  std::vector<std::string> configs) override;

  // status.images of the Node: a JSON list.
  std::string images_json() const;

 private:
  StorePuller(std::unique_ptr<image::ContentStore> store, std::unique_ptr<image::ImageSource> source,
              std::unique_ptr<image::ImageReader> reader, image::PullLimits limits, EventLoop& loop);
  const image::ImageRecord* find(std::string_view image);
  void take(const std::string& image, image::ImageRecord record);
  void ended(agent::PullTicket ticket, const std::string& image, image::PullOutcome outcome);
  void read_ended(agent::ReadTicket ticket, const Status& status);

  EventLoop& loop_;
  PullHost* host_ = nullptr;
  std::unique_ptr<image::ContentStore> store_;
  std::unique_ptr<image::ImageSource> source_;
  std::map<std::string, image::ImageRecord> images_;  // by reference; what is in the store, as far as it was seen
  std::map<agent::PullTicket, std::vector<image::DockerConfig>> secrets_;
  std::map<agent::PullTicket, std::vector<image::DockerConfig>> used_;  // of pulls on their way, for reading on
  std::map<agent::PullTicket, agent::PullResult> results_;              // until they are taken
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);          // on the loop
  std::unique_ptr<image::ImageReader> reader_;
  std::unique_ptr<image::PullPool> pool_;
};

}  // namespace ghostfleet::emulator
