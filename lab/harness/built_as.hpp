// SPDX-License-Identifier: Apache-2.0
// Build settings of a contender's program. The build writes them into a source file of their own,
// so that programs which differ in nothing else are compiled once.
#pragma once

namespace lab {

/// Names as they appear in the result line, and settings of gyre's own contenders.
struct build_facts {
  const char* experiment;
  const char* contender;
  const char* compiler;
  const char* flags;
  const char* io;  ///< the name of a gyre::io_interface
  int busy_poll;   ///< microseconds for which a loop polls for I/O before it sleeps
};

extern const build_facts built_as;

}  // namespace lab
