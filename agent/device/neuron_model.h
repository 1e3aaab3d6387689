// Models of the AWS Neuron device plugin: aws.amazon.com/neuron (whole chips) and aws.amazon.com/neuroncore, both
// registered at once over the same chips. A kubelet counts the two apart, so that a node can promise a chip twice; the
// plugin prefers chips that the other resource does not use and refuses those it does.
//
// Chips are on a ring, 16 of them on a torus of four by four: what is preferred are neighbours by number, since the
// runtime takes only contiguous ids ({0,3} of four are not).
//
// Thread rule: pure functions. Source: AWS Neuron documentation; aws-neuron/aws-neuron-sdk#110, #392.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "agent/device/plugin_model.h"

namespace ghostfleet::agent {

inline constexpr std::string_view kNeuronResource = "aws.amazon.com/neuron";
inline constexpr std::string_view kNeuronCoreResource = "aws.amazon.com/neuroncore";
inline constexpr std::string_view kNeuronDeviceResource = "aws.amazon.com/neurondevice";  // what the first was called

// What becomes of chips with gaps between them. kIgnore: nothing. kFault: the container's runtime ends with an error.
// kExtension: the scheduler extension is there, a pod waits until there are contiguous ones.
enum class Contiguity : unsigned char { kIgnore, kFault, kExtension };

struct NeuronConfig {
  uint32_t chips = 0;
  uint32_t cores_per_chip = 2;
  uint32_t numa_nodes = 2;
  Contiguity contiguity = Contiguity::kIgnore;
};

// The model of one resource (kNeuronResource, its alias or kNeuronCoreResource); null: it is none of Neuron's.
std::shared_ptr<const PluginModel> neuron_plugin(std::string_view resource, const NeuronConfig& config);

// Numbers without a gap; they are sorted.
bool is_contiguous(const std::vector<uint32_t>& sorted);
// The chips that a chip has links to.
std::vector<uint32_t> neuron_neighbours(uint32_t chip, uint32_t chips);

}  // namespace ghostfleet::agent
