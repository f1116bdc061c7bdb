// SPDX-License-Identifier: Apache-2.0
// path_call: an operation of several system calls on the names of files, all made in sequence by
// one thread of a pool.
#pragma once

#include <gyre/io/detail/file_operation.hpp>

#include <sys/types.h>

#include <cerrno>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

namespace gyre::io::detail {

/// The arguments of a path_call.
struct path_arguments {
  /// The path. A call that fails for a path below or above it stores the failing path here.
  std::string path = {};
  /// The second path, if there is one.
  std::string target = {};
  ::mode_t mode = 0;
  unsigned flags = 0;
  /// A text that follows the paths in the message of an error, and suggests a remedy.
  const char* hint = "";
};

/// Steps without a call for a ring: begin() does all the work. `Function` takes the arguments and
/// returns an outcome.
template <class Function>
class path_call final : public file_steps {
 public:
  using outcome_type = std::invoke_result_t<Function&, path_arguments&>;
  using value_type = typename outcome_type::value_type;

  path_call(path_arguments arguments, Function function) noexcept
      : arguments_(std::move(arguments)), function_(std::move(function)) {}
  next begin() noexcept override {
    // A path with a zero byte would be taken for a shorter one.
    if (arguments_.path.contains('\0') || arguments_.target.contains('\0')) return fail(EINVAL);
    try {
      outcome_ = function_(arguments_);
    } catch (const std::bad_alloc&) {
      return fail(ENOMEM);
    }
    return {};
  }
  next advance(result /*never called*/) noexcept override { return {}; }
  outcome_type outcome() noexcept {
    if (has_failed()) return failure();
    return std::move(outcome_);
  }
  std::string hint() const {
    const std::string second = arguments_.target.empty() ? "" : " to " + arguments_.target;
    return ' ' + path_in_message(arguments_.path + second + arguments_.hint);
  }

 private:
  path_arguments arguments_;
  Function function_;
  outcome_type outcome_ = failure_of(ECANCELED);
};

/// `pool`: null for blocking_pool().
template <class Function>
file_operation<path_call<Function>> path_operation(const char* name, executor* pool,
                                                   path_arguments arguments, Function function) {
  return {name, {.pool = pool, .suits_ring = false}, {std::move(arguments), std::move(function)}};
}

}  // namespace gyre::io::detail
