// SPDX-License-Identifier: Apache-2.0
// What the build says of a contender's program. It stands in a source of its own, written by the
// build, so that programs that differ in nothing else are compiled once.
#pragma once

namespace lab {

/// Names as the result line gives them, and what gyre's own contenders are set to.
struct build_facts {
  const char* experiment;
  const char* contender;
  const char* compiler;
  const char* flags;
  const char* io;  ///< the name of a gyre::io_interface
  int busy_poll;   ///< for how many microseconds a loop looks for I/O before it sleeps
};

extern const build_facts built_as;

}  // namespace lab
