// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/available_parallelism.hpp>

#include <gyre/base/detail/parse_decimal.hpp>
#include <gyre/base/detail/read_file.hpp>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <memory>
#include <ranges>
#include <string_view>
#include <utility>

namespace gyre {
namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (const auto part : std::views::split(text, separator)) {
    parts.emplace_back(part.begin(), part.end());
  }
  return parts;
}

bool contains(const std::vector<std::string_view>& parts, std::string_view word) {
  return std::ranges::find(parts, word) != parts.end();
}
bool list_contains(std::string_view list, std::string_view word) {
  return contains(split(list, ','), word);
}

std::optional<std::int64_t> parse_number(std::string_view text) noexcept {
  while (text.ends_with('\n')) text.remove_suffix(1);
  return detail::parse_decimal<std::int64_t>(text);
}

// Returns quota / period, in CPUs; nullopt if a value is missing or the quota is -1, which means no
// limit.
std::optional<double> quota_of(std::optional<std::int64_t> quota,
                               std::optional<std::int64_t> period) noexcept {
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

// Reads the quota from cpu.max, whose content is QUOTA PERIOD, such as "max 100000" or "50000
// 100000".
std::optional<double> unified_quota_in(const std::string& group) {
  const auto limit = detail::read_file((group + "/cpu.max").c_str());
  if (!limit) return std::nullopt;
  const auto parts = split(*limit, ' ');
  if (parts.size() < 2) return std::nullopt;
  return quota_of(parse_number(parts[0]), parse_number(parts[1]));
}

std::optional<double> legacy_quota_in(const std::string& group) {
  const auto quota = detail::read_file((group + "/cpu.cfs_quota_us").c_str());
  const auto period = detail::read_file((group + "/cpu.cfs_period_us").c_str());
  if (!quota || !period) return std::nullopt;
  return quota_of(parse_number(*quota), parse_number(*period));
}

// A mount of a hierarchy of control groups.
struct hierarchy_mount {
  std::string root;  // the path of the mounted control group
  std::string mount_point;
  bool is_unified;
};

// Decodes the octal escapes of mountinfo, which writes a blank as \040.
std::string unescape(std::string_view text) {
  const auto is_octal = [](char digit) { return digit >= '0' && digit <= '7'; };
  std::string decoded_text;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view digits = text.substr(i + 1).substr(0, 3);
    if (text[i] == '\\' && digits.size() == 3 && std::ranges::all_of(digits, is_octal)) {
      int code = 0;
      std::from_chars(digits.data(), digits.data() + digits.size(), code, 8);
      decoded_text += static_cast<char>(code);
      i += 3;
    } else {
      decoded_text += text[i];
    }
  }
  return decoded_text;
}

// Parses a line of mountinfo; see proc_pid_mountinfo(5):
//     31 23 0:28 ROOT PLACE rw,relatime OPTIONAL… - cgroup SOURCE rw,cpu,cpuacct
std::optional<hierarchy_mount> parse_mount(std::string_view line) {
  const auto parts = split(line, ' ');
  const auto separator = std::ranges::find(parts, "-");
  if (separator - parts.begin() < 6 || parts.end() - separator < 4) return std::nullopt;
  const std::string_view type = separator[1];
  const bool is_unified = type == "cgroup2";
  if (!is_unified && !(type == "cgroup" && list_contains(separator[3], "cpu"))) return std::nullopt;
  return hierarchy_mount{
      .root = unescape(parts[3]), .mount_point = unescape(parts[4]), .is_unified = is_unified};
}

// Returns the path of `group` below the mounted group: "" or "/a/b"; nullopt if the mount does not
// contain the group, for example if the group is outside of the process's namespace ("/../a").
std::optional<std::string> path_below(std::string_view mounted_group, std::string_view group) {
  if (mounted_group == "/") mounted_group = "";
  if (!group.starts_with(mounted_group)) return std::nullopt;
  group.remove_prefix(mounted_group.size());
  while (group.ends_with('/')) group.remove_suffix(1);
  if (!group.empty() && !group.starts_with('/')) return std::nullopt;
  if (contains(split(group, '/'), "..")) return std::nullopt;
  return std::string(group);
}

// The control groups (cgroups) of this process that can limit its CPU time.
struct process_groups {
  std::optional<std::string> unified_group;
  std::optional<std::string> legacy_group;  // the group in the hierarchy of the controller `cpu`
};

// Parses lines of "NUMBER:CONTROLLERS:GROUP"; the line of the unified hierarchy begins with "0::".
process_groups parse_groups(std::string_view text) {
  process_groups groups;
  for (const std::string_view line : split(text, '\n')) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string group(line.substr(second + 1));
    if (controllers.empty()) {
      groups.unified_group = group;
    } else if (list_contains(controllers, "cpu")) {
      groups.legacy_group = group;
    }
  }
  return groups;
}

// Reads the smallest quota of the group at `path` below the mounted group and of its parent groups,
// up to the mounted group. Some of these groups need not be visible: a container sees only its own
// group, under the name that the group has outside.
std::optional<double> read_smallest_quota(const hierarchy_mount& mount, const std::string& root,
                                          std::string path) {
  std::optional<double> smallest_quota;
  for (;;) {
    std::string group = root;
    group.append(mount.mount_point).append(path);
    const auto quota = mount.is_unified ? unified_quota_in(group) : legacy_quota_in(group);
    if (quota && (!smallest_quota || *quota < *smallest_quota)) smallest_quota = quota;
    if (path.empty()) return smallest_quota;
    path.resize(path.rfind('/'));
  }
}

// Reads the smallest quota in the mount that contains `group`. If no mount contains the group,
// reads the quota of the first mount, because in a container the group may have the name that it
// has outside.
std::optional<double> quota_in_hierarchy(const std::vector<hierarchy_mount>& mounts,
                                         const std::string& root, const std::string& group,
                                         bool is_unified) {
  const hierarchy_mount* first = nullptr;
  for (const hierarchy_mount& mount : mounts) {
    if (mount.is_unified != is_unified) continue;
    if (const auto path = path_below(mount.root, group))
      return read_smallest_quota(mount, root, *path);
    if (first == nullptr) first = &mount;
  }
  return first != nullptr ? read_smallest_quota(*first, root, "") : std::nullopt;
}

}  // namespace

std::optional<double> detail::control_group_quota(const std::string& root) {
  const auto groups = detail::read_file((root + "/proc/self/cgroup").c_str());
  const auto mount_lines = detail::read_file((root + "/proc/self/mountinfo").c_str());
  if (!groups || !mount_lines) return std::nullopt;
  std::vector<hierarchy_mount> mounts;
  for (const std::string_view line : split(*mount_lines, '\n')) {
    if (auto mount = parse_mount(line)) mounts.push_back(*std::move(mount));
  }
  const process_groups groups_of_process = parse_groups(*groups);
  std::optional<double> smallest_quota;
  for (const auto& [group, is_unified] : {std::pair(&groups_of_process.unified_group, true),
                                          {&groups_of_process.legacy_group, false}}) {
    if (!*group) continue;
    const auto quota = quota_in_hierarchy(mounts, root, **group, is_unified);
    if (quota && (!smallest_quota || *quota < *smallest_quota)) smallest_quota = quota;
  }
  return smallest_quota;
}

std::size_t detail::parallelism_of(std::size_t cpus, std::optional<double> quota) noexcept {
  cpus = std::max<std::size_t>(cpus, 1);
  if (!quota || *quota >= static_cast<double>(cpus)) return cpus;
  return std::max<std::size_t>(static_cast<std::size_t>(std::ceil(*quota)), 1);
}

std::vector<int> detail::usable_cpus(affinity_call get_affinity) {
  // The kernel refuses (EINVAL) a set that is smaller than the machine might need, so the set
  // grows.
  constexpr std::size_t max_cpus = std::size_t{1} << 20;
  struct free_set {
    void operator()(cpu_set_t* set) const noexcept { CPU_FREE(set); }
  };
  std::vector<int> cpus;
  for (std::size_t cpu_capacity = CPU_SETSIZE; cpu_capacity <= max_cpus; cpu_capacity *= 2) {
    const std::unique_ptr<cpu_set_t, free_set> set(CPU_ALLOC(cpu_capacity));
    if (set == nullptr) return cpus;
    const std::size_t size = CPU_ALLOC_SIZE(cpu_capacity);
    CPU_ZERO_S(size, set.get());
    if (get_affinity(0, size, set.get()) != 0) {
      if (errno == EINVAL) continue;
      return cpus;
    }
    for (std::size_t cpu = 0; cpu < cpu_capacity; ++cpu) {
      if (CPU_ISSET_S(cpu, size, set.get())) cpus.push_back(static_cast<int>(cpu));
    }
    return cpus;
  }
  return cpus;
}

std::size_t available_parallelism() {
  return detail::parallelism_of(detail::usable_cpus().size(), detail::control_group_quota());
}

}  // namespace gyre
