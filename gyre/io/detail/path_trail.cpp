// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/detail/path_trail.hpp>

#include <gyre/io/detail/system_files.hpp>

#include <fcntl.h>
#include <sys/stat.h>

#include <string_view>
#include <vector>

namespace gyre::io::detail {
namespace {

constexpr int max_links = 40;  // Linux's limit of links on one path

bool names_nothing(int error) noexcept { return error == ENOENT || error == ENOTDIR; }

// Puts the names of `path` before the names that are still to be walked. The next name is last.
void push_names(std::vector<std::string>& names, std::string_view path) {
  for (std::size_t end = path.size(); end > 0;) {
    const std::size_t slash = path.rfind('/', end - 1);
    const std::size_t begin = slash == path.npos ? 0 : slash + 1;
    if (begin < end) names.emplace_back(path.substr(begin, end - begin));
    end = slash == path.npos ? 0 : slash;
  }
}

class path_walk {
 public:
  path_walk(const std::string& path, const std::function<int(const path_step&)>& visit)
      : visit_(visit) {
    push_names(names_, path);
  }

  path_end run() {
    while (end_.error == 0 && !names_.empty()) {
      const std::string name = std::move(names_.back());
      names_.pop_back();
      walk(name);
    }
    return end_;
  }

 private:
  void walk(const std::string& name) {
    const bool is_last = names_.empty();
    if (is_last && !visit_last(name)) return;
    if (name == "..") directory_.resize(directory_.empty() ? 0 : directory_.rfind('/'));
    const bool is_directory = name == "." || name == "..";
    const std::string path = directory_ + '/' + (is_directory ? "." : name);
    // visit_last() has already visited the last name of a path.
    bool is_visited = is_last;
    for (;;) {
      const auto status =
          system::status_at(AT_FDCWD, path.c_str(), AT_SYMLINK_NOFOLLOW, STATX_TYPE | STATX_INO);
      const int error = status ? 0 : status.error();
      if (error == 0 && !S_ISLNK(status->stx_mode)) {
        if (is_last) end_.file.emplace(system::device_of(*status), status->stx_ino);
        if (!is_directory) directory_ = path;
        return;
      }
      if (error != 0 && (is_visited || !names_nothing(error))) return fail(error);
      if (!is_visited) {
        // The name is examined again after its changes are watched, so that none is missed.
        if (!visit(path_step::role::link, name)) return;
        is_visited = true;
        continue;
      }
      end_.has_links = true;
      if (++links_ > max_links) return fail(ELOOP);
      const auto target = system::read_link(path.c_str());
      if (!target || target->empty()) continue;  // another file has replaced the link
      if (target->front() == '/') directory_.clear();
      return push_names(names_, *target);
    }
  }

  void fail(int error) noexcept { end_.error = error; }

  // Visits the last name of a path. Returns whether the walk continues.
  bool visit_last(const std::string& name) {
    if (!end_.has_directory) {
      return end_.has_directory = visit(path_step::role::name, name);
    }
    return name == "." || name == ".." || visit(path_step::role::file, name);
  }

  // Calls the visitor. Returns whether the walk continues.
  bool visit(path_step::role kind, const std::string& name) {
    end_.error =
        visit_({.kind = kind, .directory = directory_.empty() ? "/" : directory_, .name = name});
    return end_.error == 0;
  }

  const std::function<int(const path_step&)>& visit_;
  std::vector<std::string> names_;  // names still to be walked; the next name is last
  std::string directory_;           // has no links, and no slash at its end
  int links_ = 0;
  path_end end_;
};

}  // namespace

path_end walk_path(const std::string& path, const std::function<int(const path_step&)>& visit) {
  return path_walk(path, visit).run();
}

}  // namespace gyre::io::detail
