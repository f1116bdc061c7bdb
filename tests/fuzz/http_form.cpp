// SPDX-License-Identifier: Apache-2.0
// Fuzz target: bodies of forms. A form that is read and written is read as the same form, and
// agrees with a query of the same text.
#include <tests/fuzz/fuzz.hpp>

#include <gyre/http/form.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace {

using gyre::fuzz::decisions;
using gyre::fuzz::require;
using gyre::http::form;

void check_text(std::string_view text) {
  const gyre::http::query_limits limits{.max_size = 2000, .max_pairs = 20};
  const auto read = form::parse(text, limits);
  const auto pairs = gyre::http::query::parse(text, limits);
  require(read.has_value() == pairs.has_value());
  if (!read) return;
  require(read->size() <= limits.max_pairs);
  for (const gyre::http::form_field& each : *read) {
    require(read->get(each.name) == pairs->get(each.name));
    require(read->get_all(each.name).size() == pairs->get_all(each.name).size());
  }
  require(form::parse(read->to_string()) == *read);
}

void check_round_trip(decisions& decide) {
  form written;
  while (!decide.empty()) {
    const std::string_view name = decide.text(decide.below(8));
    written.add(name, decide.text(decide.below(16)));
  }
  require(form::parse(written.to_string()) == written);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  decisions decide(data, size);
  if (decide.flip()) {
    check_text(decide.rest());
  } else {
    check_round_trip(decide);
  }
  return 0;
}
