// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/detail/path_trail.hpp>

#include <gyre/io/detail/system_files.hpp>

#include <fcntl.h>
#include <sys/stat.h>

#include <string_view>
#include <vector>

namespace gyre::io::detail {
namespace {

constexpr int max_links = 40;  // as in the kernel

bool names_nothing(int error) noexcept { return error == ENOENT || error == ENOTDIR; }

// Puts the names of `path` in front of those that are still to be walked; the next one is last.
void push_names(std::vector<std::string>& rest, std::string_view path) {
  for (std::size_t end = path.size(); end > 0;) {
    const std::size_t slash = path.rfind('/', end - 1);
    const std::size_t begin = slash == path.npos ? 0 : slash + 1;
    if (begin < end) rest.emplace_back(path.substr(begin, end - begin));
    end = slash == path.npos ? 0 : slash;
  }
}

class path_walk {
 public:
  path_walk(const std::string& path, const std::function<int(const path_step&)>& visit)
      : visit_(visit) {
    push_names(rest_, path);
  }

  path_end run() {
    while (end_.error == 0 && !rest_.empty()) {
      const std::string name = std::move(rest_.back());
      rest_.pop_back();
      take(name);
    }
    return end_;
  }

 private:
  void take(const std::string& name) {
    const bool is_last = rest_.empty();
    if (is_last && !visit_last(name)) return;
    if (name == "..") directory_.resize(directory_.empty() ? 0 : directory_.rfind('/'));
    const bool is_directory = name == "." || name == "..";
    const std::string place = directory_ + '/' + (is_directory ? "." : name);
    // The last name is visited already.
    bool is_visited = is_last;
    for (;;) {
      const auto status =
          system::status_at(AT_FDCWD, place.c_str(), AT_SYMLINK_NOFOLLOW, STATX_TYPE | STATX_INO);
      const int error = status ? 0 : status.error();
      if (error == 0 && !S_ISLNK(status->stx_mode)) {
        if (is_last) end_.file.emplace(system::device_of(*status), status->stx_ino);
        if (!is_directory) directory_ = place;
        return;
      }
      if (error != 0 && (is_visited || !names_nothing(error))) return fail(error);
      if (!is_visited) {
        // Looked at again once its changes are seen.
        if (!visit(path_step::role::link, name)) return;
        is_visited = true;
        continue;
      }
      end_.has_links = true;
      if (++links_ > max_links) return fail(ELOOP);
      const auto target = system::read_link(place.c_str());
      if (!target || target->empty()) continue;  // another file has just replaced the link
      if (target->front() == '/') directory_.clear();
      return push_names(rest_, *target);
    }
  }

  void fail(int error) noexcept { end_.error = error; }

  // Returns whether the walk continues.
  bool visit_last(const std::string& name) {
    if (!end_.has_directory) {
      return end_.has_directory = visit(path_step::role::name, name);
    }
    return name == "." || name == ".." || visit(path_step::role::file, name);
  }

  // Returns whether the walk continues.
  bool visit(path_step::role kind, const std::string& name) {
    end_.error =
        visit_({.kind = kind, .directory = directory_.empty() ? "/" : directory_, .name = name});
    return end_.error == 0;
  }

  const std::function<int(const path_step&)>& visit_;
  std::vector<std::string> rest_;  // the next one is last
  std::string directory_;          // without links, and without a slash at its end
  int links_ = 0;
  path_end end_;
};

}  // namespace

path_end walk_path(const std::string& path, const std::function<int(const path_step&)>& visit) {
  return path_walk(path, visit).run();
}

}  // namespace gyre::io::detail
