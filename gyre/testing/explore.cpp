// SPDX-License-Identifier: Apache-2.0
#include <gyre/testing/explore.hpp>

#include <gyre/base/detail/parse_decimal.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/testing/manual_executor.hpp>

#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <limits>
#include <memory>
#include <random>
#include <stdexcept>
#include <system_error>

namespace gyre::testing {
namespace {

constexpr std::size_t never = std::numeric_limits<std::size_t>::max();

std::optional<std::uint64_t> read_seed_from_environment() {
  const char* const value = std::getenv("GYRE_TESTING_SEED");
  if (value == nullptr) return std::nullopt;
  const auto seed = gyre::detail::parse_decimal<std::uint64_t>(value);
  if (!seed) {
    throw std::invalid_argument("explore: GYRE_TESTING_SEED is not a number: '" +
                                std::string(value) + "'");
  }
  return seed;
}

std::string describe(const std::exception_ptr& error) {
  if (error == nullptr) return "explore_options::has_failed returned true";
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& failure) {
    return failure.what();
  } catch (...) {
    return "an exception that is not derived from std::exception";
  }
}

// The message for stderr if this thread aborts in a schedule; empty outside schedules.
thread_local std::array<char, 128> abort_message{};

struct sigaction original_handler;

// Prints abort_message, because a program that aborts cannot return the seed. Calls only
// async-signal-safe functions.
void on_abort(int signal) {
  const std::size_t length = ::strnlen(abort_message.data(), abort_message.size());
  static_cast<void>(!::write(STDERR_FILENO, abort_message.data(), length));
  ::sigaction(signal, &original_handler, nullptr);
  ::raise(signal);  // the original handler runs after this one has returned
}

/// A scope in which an abort of this thread, or std::terminate(), prints the seed.
class seed_of_abort {
 public:
  explicit seed_of_abort(std::uint64_t seed) {
    [[maybe_unused]] static const int once = [] {
      struct sigaction action{};
      action.sa_handler = &on_abort;
      return ::sigaction(SIGABRT, &action, &original_handler);
    }();
    std::snprintf(abort_message.data(), abort_message.size(),
                  "gyre::testing::explore: a schedule aborted; to replay it, set "
                  "GYRE_TESTING_SEED=%llu\n",
                  static_cast<unsigned long long>(seed));
  }
  seed_of_abort(const seed_of_abort&) = delete;
  seed_of_abort& operator=(const seed_of_abort&) = delete;
  ~seed_of_abort() { abort_message[0] = '\0'; }
};

/// One run of the program.
class schedule {
 public:
  schedule(std::uint64_t seed, const explore_options& options)
      : options_(options), random_(seed), executor_(random_()) {
    // Chooses the step of the stop log-uniformly, so that short and long programs are both stopped
    // early and late.
    if (!options.stops) return;
    const std::uint64_t bits = random_() % 12;
    stop_step_ = random_() % (std::size_t{1} << bits);
  }

  std::exception_ptr run(const std::function<task<>(executor&)>& program) {
    std::exception_ptr error;
    try {
      result_ = gyre::spawn_future(executor_, program(executor_), stop_.get_token());
      error = run_to_end();
      if (error != nullptr) end_other_coroutines();
    } catch (...) {  // thrown by `program` itself, or by a posted operation
      error = std::current_exception();
    }
    return error;
  }
  /// Whether coroutines of the schedule may still refer to this object.
  bool is_left_suspended() const { return result_.valid() && !has_ended(); }

 private:
  bool has_ended() const {
    return result_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  std::exception_ptr run_to_end() {
    for (std::size_t step = 0; !has_ended() || executor_.pending() > 0; ++step) {
      if (step == options_.step_limit) {
        return failure("the program has not ended after " + std::to_string(step) + " steps");
      }
      if (step == stop_step_) stop_.request_stop();
      if (!take_step()) {
        return failure(
            "deadlock: the program waits, but no operation is pending and no timer is "
            "started");
      }
    }
    return error_of_result();
  }
  bool take_step() {
    const bool expires_early = options_.early_timers && random_() % 8 == 0;
    if (expires_early && executor_.expire_next()) return true;
    return executor_.run_one() || executor_.expire_next();
  }
  std::exception_ptr error_of_result() {
    try {
      result_.get();
    } catch (const std::system_error& error) {
      if (stop_.stop_requested() && error.code() == std::errc::operation_canceled) return nullptr;
      return std::current_exception();
    } catch (...) {
      return std::current_exception();
    }
    return nullptr;
  }
  void end_other_coroutines() {
    stop_.request_stop();
    for (std::size_t step = 0; step < options_.step_limit && take_step(); ++step) {
    }
  }
  static std::exception_ptr failure(const std::string& reason) {
    return std::make_exception_ptr(std::logic_error("explore: " + reason));
  }

  const explore_options& options_;
  std::mt19937_64 random_;
  manual_executor executor_;
  inplace_stop_source stop_;
  std::size_t stop_step_ = never;
  std::future<void> result_;
};

}  // namespace

exploration explore(std::size_t schedules, const std::function<task<>(executor&)>& program,
                    const explore_options& options) {
  if (!program) throw std::invalid_argument("explore: the program is empty");
  std::uint64_t seed = options.first_seed;
  if (const std::optional<std::uint64_t> replayed_seed = read_seed_from_environment()) {
    seed = *replayed_seed;
    schedules = 1;
  }
  exploration result;
  for (; result.schedules < schedules; ++seed) {
    const seed_of_abort seed_guard(seed);
    auto new_schedule = std::make_unique<schedule>(seed, options);
    result.error = new_schedule->run(program);
    ++result.schedules;
    const bool has_failed = result.error != nullptr || (options.has_failed && options.has_failed());
    // A schedule with suspended coroutines is leaked, because they refer to its executor and stop
    // source.
    if (new_schedule->is_left_suspended()) static_cast<void>(new_schedule.release());
    if (!has_failed) continue;
    result.failed_seed = seed;
    result.message = "schedule " + std::to_string(result.schedules) + " of " +
                     std::to_string(schedules) + " has_failed, seed " + std::to_string(seed) +
                     ": " + describe(result.error) +
                     "; to replay it, set GYRE_TESTING_SEED=" + std::to_string(seed);
    std::fprintf(stderr, "gyre::testing::explore: %s\n", result.message.c_str());
    break;
  }
  return result;
}

}  // namespace gyre::testing
