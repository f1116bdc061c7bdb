// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/name_question.hpp>

#include <gyre/net/detail/destination_order.hpp>
#include <gyre/net/detail/hosts_file.hpp>

#include <algorithm>

namespace gyre::net::detail {

question_key key_for(const waiting_lookup& lookup, std::string_view host) {
  std::string name = host_key(host);
  if (host.ends_with('.')) name += '.';
  return {std::move(name), lookup.kind.records};
}

bool question::has_answer() const {
  return std::ranges::any_of(queries, [](const dns_query& each) {
    return each.answer && (!each.answer->empty() || !each.message.empty());
  });
}

std::vector<ip_address> question::addresses() const {
  std::vector<ip_address> found;
  for (const dns_query& each : queries) {
    if (each.answer) found.insert(found.end(), each.answer->begin(), each.answer->end());
  }
  sort_destinations(found);
  return found;
}

std::error_code question::query_failure() const {
  std::error_code error;
  for (const dns_query& each : queries) {
    if (!each.answer) error = graver(error, each.answer.error());
  }
  return error;
}

std::error_code graver(std::error_code one, std::error_code other) {
  const auto gravity = [](std::error_code each) {
    return !each                                  ? 0
           : each == resolve_errc::host_not_found ? 1
           : each == resolve_errc::no_data        ? 2
                                                  : 3;
  };
  return gravity(one) >= gravity(other) ? one : other;
}

std::string_view plain_name(std::string_view name) {
  if (name.ends_with('.')) name.remove_suffix(1);
  return name;
}

}  // namespace gyre::net::detail
