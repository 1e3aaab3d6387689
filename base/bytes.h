// SharedBytes: immutable, reference-counted bytes. An encoded object or frame is built once and shared by the store,
// its watchers and the sockets that send it.
//
// Thread rule: the bytes never change after construction, so a SharedBytes may be read from any thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace ghostfleet {

using SharedBytes = std::shared_ptr<const std::string>;

inline SharedBytes share(std::string bytes) { return std::make_shared<const std::string>(std::move(bytes)); }
inline std::string_view view(const SharedBytes& bytes) { return bytes ? std::string_view(*bytes) : std::string_view(); }

}  // namespace ghostfleet
