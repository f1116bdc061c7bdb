// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/hosts_file.hpp>

#include <algorithm>
#include <fstream>
#include <iterator>

namespace gyre::net::detail {
namespace {

constexpr std::string_view blank = " \t\r\v\f";

// Cuts off what comes before the first of `ends`, and that one.
std::string_view take_until(std::string_view& text, std::string_view ends) {
  const std::size_t end = text.find_first_of(ends);
  const std::string_view taken = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return taken;
}

std::string_view next_word(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(blank), line.size()));
  return take_until(line, blank);
}

void parse_line(std::string_view line, hosts& into) {
  const auto address = ip_address::parse(next_word(line));
  if (!address) return;
  for (auto name = next_word(line); !name.empty(); name = next_word(line)) {
    auto& addresses = into[host_key(name)];
    if (std::ranges::find(addresses, *address) == addresses.end()) {
      addresses.push_back(*address);
    }
  }
}

}  // namespace

std::string host_key(std::string_view name) {
  if (name.ends_with('.')) name.remove_suffix(1);
  std::string key(name);
  for (char& each : key) {
    if (each >= 'A' && each <= 'Z') each = static_cast<char>(each - 'A' + 'a');
  }
  return key;
}

hosts parse_hosts(std::string_view text) {
  hosts result;
  while (!text.empty()) {
    std::string_view line = take_until(text, "\n");
    parse_line(take_until(line, "#"), result);
  }
  return result;
}

const std::vector<ip_address>* hosts_file::find(std::string_view key) {
  if (read_.update(path_)) {
    hosts_.clear();
    if (read_.exists()) {
      std::ifstream file(path_, std::ios::binary);
      hosts_ = parse_hosts(std::string(std::istreambuf_iterator<char>(file), {}));
    }
  }
  const auto found = hosts_.find(key);
  return found == hosts_.end() ? nullptr : &found->second;
}

}  // namespace gyre::net::detail
