// SPDX-License-Identifier: Apache-2.0
// blocking_steps: work of several system calls, all made by a thread of a pool in one go.
// path_call: such work on the names of files.
#pragma once

#include <gyre/io/detail/file_operation.hpp>

#include <sys/types.h>

#include <cerrno>
#include <expected>
#include <new>
#include <string>
#include <system_error>
#include <utility>

namespace gyre::io::detail {

inline std::unexpected<std::error_code> failure_of(int error) noexcept {
  return std::unexpected(std::error_code(error, std::system_category()));
}

/// Steps without a call for a ring: begin() does all the work. `Work` has a value_type, a run()
/// that gives an outcome, and a path() for messages.
template <class Work>
class blocking_steps final : public file_steps {
 public:
  using value_type = typename Work::value_type;
  explicit blocking_steps(Work work) noexcept : work_(std::move(work)) {}
  next begin() noexcept override {
    try {
      outcome_ = work_.run();
    } catch (const std::bad_alloc&) {
      outcome_ = failure_of(ENOMEM);
    }
    return {};
  }
  next advance(result /*never called*/) noexcept override { return {}; }
  outcome_of<value_type> outcome() noexcept { return std::move(outcome_); }
  std::string path() const { return work_.path(); }

 private:
  Work work_;
  outcome_of<value_type> outcome_ = failure_of(ECANCELED);
};

/// The operation of `work`, on a thread of `pool`, or of blocking_pool() if that is null.
template <class Work>
file_operation<blocking_steps<Work>> blocking_operation(const char* name, executor* pool,
                                                        Work work) {
  return {name, {.pool = pool, .suits_ring = false}, blocking_steps<Work>(std::move(work))};
}

/// The arguments of a path_call.
struct path_arguments {
  /// A call that fails below or above the path leaves the failing path here.
  std::string path;
  /// The second path, if there is one.
  std::string target = {};
  ::mode_t mode = 0;
  unsigned flags = 0;
  /// Behind the paths in the message: the way out.
  const char* hint = "";
};

/// Work on one or two paths.
template <class T>
class path_call {
 public:
  using value_type = T;
  using function = outcome_of<T> (*)(path_arguments&);

  path_call(function call, path_arguments arguments) noexcept
      : call_(call), arguments_(std::move(arguments)) {}
  // A path with a zero byte would be taken for a shorter one.
  outcome_of<T> run() {
    const bool has_zero = arguments_.path.contains('\0') || arguments_.target.contains('\0');
    return has_zero ? failure_of(EINVAL) : call_(arguments_);
  }
  std::string path() const {
    const std::string second = arguments_.target.empty() ? "" : " to " + arguments_.target;
    return arguments_.path + second + arguments_.hint;
  }

 private:
  function call_;
  path_arguments arguments_;
};

template <class T>
auto path_operation(const char* name, executor* pool, outcome_of<T> (*call)(path_arguments&),
                    path_arguments arguments) {
  return blocking_operation(name, pool, path_call<T>(call, std::move(arguments)));
}

}  // namespace gyre::io::detail
