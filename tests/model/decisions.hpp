// SPDX-License-Identifier: Apache-2.0
//
// The depth-first search over schedules: a schedule is a list of decisions, and the next schedule
// differs in the last decision that has an alternative left.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace gyre::model {

/// The decisions of a schedule, in order, and the search through all of them.
class decisions {
 public:
  /// Chooses one of `count` alternatives: first number 0, the others in later schedules.
  unsigned decide(unsigned count);
  bool replaying() const { return next_ < taken_.size(); }
  void rewind() { next_ = 0; }
  void clear() { taken_.clear(), next_ = 0; }
  /// Moves to the next schedule; false if there is none.
  bool advance();

  std::string to_string() const;
  void parse(const std::string& trace);

 private:
  struct decision {
    unsigned taken;
    unsigned count;  // 0: from a trace, not known yet
  };
  std::vector<decision> taken_;
  std::size_t next_ = 0;
};

}  // namespace gyre::model
