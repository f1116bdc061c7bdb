// SPDX-License-Identifier: Apache-2.0
// A limit on a process's descriptors: for child processes of tests, as other tests need some, too.
#pragma once

#include <gyre/base/unique_fd.hpp>

#include <sys/eventfd.h>
#include <sys/resource.h>

#include <cstddef>
#include <vector>

namespace gyre::test {

/// While the object lives, this process can open `spare` more descriptors; later, at most 32.
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
