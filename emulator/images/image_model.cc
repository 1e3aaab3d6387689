#include "emulator/images/image_model.h"

namespace ghostfleet::emulator {

std::shared_ptr<const PullOptions> pull_options_for(const ImageModel& model, const PullMachine& machine) {
  auto o = std::make_shared<PullOptions>(model.pull);
  o->cpus = machine.cpus;
  if (o->network_rate <= 0) o->network_rate = machine.network_rate;
  if (o->disk_capacity <= 0) o->disk_capacity = machine.disk_capacity;
  return o;
}

}  // namespace ghostfleet::emulator
