#include "emulator/images/pull_service.h"

#include "agent/pod/images.h"
#include "base/glob.h"

namespace ghostfleet::emulator {

PullService::PullService(ImageStores& stores, std::shared_ptr<const ImageCatalogue> catalogue,
                         std::vector<agent::ImageRule> rules, uint64_t seed)
    : stores_(stores), port_(stores.add_port()), index_(std::move(catalogue)), rules_(std::move(rules)), seed_(seed) {}

void PullService::poll(TimePoint now, size_t most) {
  if (idle()) return;
  if (!behind()) {
    finished_.clear();
    told_ = 0;
    stores_.poll(port_, now, &finished_);
  }
  for (; behind() && most > 0; --most) {
    const FinishedTransfer one = finished_[told_++];
    --on_the_way_;
    const auto it = nodes_.find(static_cast<uint32_t>(one.tag >> 32));
    if (it != nodes_.end()) it->second->on_transfer(static_cast<uint32_t>(one.tag), one.at);
  }
}

FlowModel::Id PullService::begin(uint32_t node, uint32_t key, TimePoint now, Transfer transfer) {
  transfer.tag = static_cast<uint64_t>(node) << 32 | key;
  ++on_the_way_;
  return stores_.begin(port_, now, transfer);
}

const agent::ImageRule* PullService::rule_of(std::string_view image) const {
  for (const agent::ImageRule& rule : rules_) {
    if (glob_match(rule.match, image)) return &rule;
  }
  return nullptr;
}

}  // namespace ghostfleet::emulator
