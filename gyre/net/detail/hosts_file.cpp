// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/hosts_file.hpp>

#include <gyre/base/detail/ascii.hpp>
#include <gyre/base/detail/read_file.hpp>
#include <gyre/net/detail/errors.hpp>

#include <algorithm>

namespace gyre::net::detail {
namespace {

void parse_line(std::string_view line, hosts& names) {
  const auto address = ip_address::parse(next_word(line));
  if (!address) return;
  for (auto name = next_word(line); !name.empty(); name = next_word(line)) {
    auto& addresses = names[host_key(name)];
    if (std::ranges::find(addresses, *address) == addresses.end()) {
      addresses.push_back(*address);
    }
  }
}

}  // namespace

std::string host_key(std::string_view name) {
  if (name.ends_with('.')) name.remove_suffix(1);
  return gyre::detail::to_lower(name);
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
  if (version_.update(path_)) {
    const auto text = version_.exists() ? gyre::detail::read_file(path_.c_str()) : std::string();
    hosts_ = text ? parse_hosts(*text) : hosts();
  }
  const auto entry = hosts_.find(key);
  return entry == hosts_.end() ? nullptr : &entry->second;
}

}  // namespace gyre::net::detail
