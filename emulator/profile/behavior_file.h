// What pods do, told in files: the fields `histograms` and `behaviorRules` of a fleet file, or of a file of their own
// (--behavior-rules).
//
// Format: docs/fleet-file.md. Strict: every complaint names file, line, field, value and what would be right.
// Thread rule: plain values. Limits: agent::BehaviorRules::kMaxRules rules, 100 histograms of 1 MiB.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "agent/behavior/behavior_rules.h"
#include "base/status.h"
#include "emulator/profile/object_reader.h"

namespace ghostfleet::emulator {

// Reads a histogram by the path in the file, which may be relative to it.
using TextLoader = std::function<Result<std::string>(const std::string& path)>;
// From the disk, relative to the folder of `file`.
TextLoader load_beside(const std::string& file);

// Null when neither field is there.
std::shared_ptr<const agent::BehaviorRules> read_behavior_rules(ObjectReader* reader, const TextLoader& load);

// A file {histograms: {...}, behaviorRules: [...]}.
Result<std::shared_ptr<const agent::BehaviorRules>> parse_behavior_rules(std::string_view text, const std::string& file,
                                                                         TextLoader load = {});

}  // namespace ghostfleet::emulator
