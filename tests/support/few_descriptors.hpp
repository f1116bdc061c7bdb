// SPDX-License-Identifier: Apache-2.0
// A process that is short of descriptors: for children of tests, as others may need some too.
#pragma once

#include <gyre/base/unique_fd.hpp>

#include <sys/eventfd.h>
#include <sys/resource.h>

#include <cstddef>
#include <vector>

namespace gyre::test {

/// While it lives, this process can open `spare` more descriptors. 32 are the most it ever can
/// again.
class few_descriptors {
 public:
  explicit few_descriptors(std::size_t spare) {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = 32;
    ::setrlimit(RLIMIT_NOFILE, &limit);
    do taken_.emplace_back(::eventfd(0, EFD_CLOEXEC));
    while (taken_.back());
    taken_.resize(taken_.size() - 1 - spare);
  }

 private:
  std::vector<unique_fd> taken_;
};

}  // namespace gyre::test
