// RootFolder: a folder outside of which nothing is read, made or removed, whatever paths and links it is asked for.
// Every step of a path is opened by itself and without following links.
//
// Thread rule: one owner; nobody else changes the folder meanwhile. Errors: InvalidArgument names a path that leads
// out; else what the system says, with the path. Limits: kMaxDepth folders, names of 255 bytes, 40 links in a path.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/descriptor.h"
#include "base/status.h"

namespace ghostfleet::image {

// "./a//b/" becomes {a, b}; an absolute path is taken from the root. InvalidArgument for "..", for too long names and
// paths that are too deep.
Result<std::vector<std::string>> split_path(std::string_view path);
std::string join_parts(const std::vector<std::string>& parts, size_t count);

class RootFolder {
 public:
  static constexpr size_t kMaxDepth = 512;
  static constexpr int kMaxLinks = 40;

  static Result<RootFolder> open(const std::string& path);

  // What a link on the way to the last part of a path does.
  enum class Links : unsigned char {
    kInside,   // it is followed when it is relative and stays inside, else an error
    kContain,  // it is followed as if this folder were the machine's root
  };
  // Called for each folder that is made on the way, with its path.
  using OnMade = std::function<void(const std::string&)>;

  // The folder that holds the last part of `parts`, which must not be empty; missing ones are made when `make`.
  Result<int> parent(const std::vector<std::string>& parts, Links links, bool make, const OnMade& on_made);
  // Follows all links, also the last; the real path below the root. NotFound when there is nothing.
  Result<std::vector<std::string>> resolve(const std::vector<std::string>& parts, Links links) const;
  // A folder by its real path.
  Result<Fd> folder(const std::vector<std::string>& parts) const;
  // A regular file for reading; all links are followed inside.
  Result<Fd> file(std::string_view path) const;
  int fd() const { return root_.get(); }
  // Whoever removes or replaces something tells so: the last parent is remembered. It stays open until the next one.
  void forget() { remembered_ = false; }

 private:
  RootFolder(Fd root, std::string path) : root_(std::move(root)), path_(std::move(path)) {}
  Result<std::vector<std::string>> walk(std::vector<std::string> parts, Links links, bool make, bool last_too,
                                        const OnMade& on_made) const;

  Fd root_;
  std::string path_;
  Fd last_;
  std::string last_path_;
  bool remembered_ = false;
};

// Removes NAME in a folder, with all below it, without following links. OK when there is none.
Status remove_tree(int folder, const std::string& name);
// The same by a path of our own.
Status remove_tree(const std::string& path);
// Everything in the folder, but not itself.
Status empty_folder(int folder);
// Names in a folder but "." and "..".
Result<std::vector<std::string>> names_in(int folder);

}  // namespace ghostfleet::image
