// SPDX-License-Identifier: Apache-2.0
//
// Decisions of the search: taking, advancing, printing and parsing.
#include <tests/model/decisions.hpp>

#include <tests/model/scheduler.hpp>

#include <charconv>

namespace gyre::model {

unsigned decisions::decide(unsigned count) {
  if (count == 1) return 0;
  if (next_ == taken_.size()) taken_.push_back({.taken = 0, .count = count});
  decision& made = taken_[next_++];
  if (made.count == 0) made.count = count;
  if (made.count != count || made.taken >= count) {
    fail("the scenario is not deterministic: the same schedule offers other alternatives");
  }
  return made.taken;
}

bool decisions::advance() {
  while (!taken_.empty() && taken_.back().taken + 1 == taken_.back().count) taken_.pop_back();
  if (taken_.empty()) return false;
  ++taken_.back().taken;
  return true;
}

// The numbers of the chosen alternatives; "zN" means N zeros, and zeros at the end are omitted.
std::string decisions::to_string() const {
  std::string trace;
  unsigned zeros = 0;
  for (const decision& each : taken_) {
    if (each.taken == 0) {
      ++zeros;
      continue;
    }
    if (!trace.empty()) trace += '.';
    if (zeros > 0) trace += 'z' + std::to_string(zeros) + '.';
    zeros = 0;
    trace += std::to_string(each.taken);
  }
  return trace.empty() ? "z0" : trace;
}

void decisions::parse(const std::string& trace) {
  clear();
  for (const char* at = trace.data(); at < trace.data() + trace.size(); ++at) {
    const bool zeros = *at == 'z';
    unsigned number = 0;
    at = std::from_chars(at + (zeros ? 1 : 0), trace.data() + trace.size(), number).ptr;
    taken_.insert(taken_.end(), zeros ? number : 1, {.taken = zeros ? 0 : number, .count = 0});
  }
}

}  // namespace gyre::model
