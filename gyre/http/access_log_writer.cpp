// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/access_log_writer.hpp>

#include <gyre/base/atomic.hpp>
#include <gyre/base/cache_line.hpp>
#include <gyre/http/request.hpp>
#include <gyre/metrics/exposition.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/task.hpp>

#include <array>
#include <atomic>
#include <mutex>
#include <new>
#include <stdexcept>
#include <utility>

namespace gyre::http {

// The call on the executor, in one of these states:
//
// | event                  | idle             | pending | running |
// |------------------------|------------------|---------|---------|
// | a line is added        | pending, spawned | -       | pending |
// | the call takes lines   | -                | running | -       |
// | the call would end     | -                | again   | idle    |
class access_log_writer::core : public std::enable_shared_from_this<core> {
 public:
  core(executor& target, write_function write, access_log_writer_options options)
      : target_(target), options_(std::move(options)), write_(std::move(write)) {
    if (!write_) throw std::invalid_argument("http::access_log_writer: needs a function");
    if (!options_.format) throw std::invalid_argument("http::access_log_writer: needs a format");
    if (options_.max_pending == 0) {
      throw std::invalid_argument("http::access_log_writer: max_pending must be at least 1");
    }
  }

  void add(const access_record& record) {
    std::string line = options_.format(record);
    line += '\n';
    if (!append(part_of(record.request.loop()), line)) {
      dropped_lines_.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    // acq_rel: pairs with the exchange in run(), which makes the line visible to the call.
    if (state_.exchange(state::pending, std::memory_order_acq_rel) == state::idle) begin_call();
  }

  void write_pending() {
    const std::lock_guard lock(write_mutex_);
    lines_.clear();
    std::uint64_t count = 0;
    for (part& loop_part : parts_) {
      const std::lock_guard part_lock(loop_part.mutex);
      if (lines_.empty()) {
        // Both buffers keep their memory and take turns, so that a steady state allocates nothing.
        lines_.swap(loop_part.lines);
      } else {
        try {
          lines_ += loop_part.lines;
        } catch (const std::bad_alloc&) {
          continue;  // the next call takes these lines
        }
        loop_part.lines.clear();
      }
      count += std::exchange(loop_part.count, 0);
    }
    if (lines_.empty()) return;
    pending_bytes_.fetch_sub(lines_.size(), std::memory_order_relaxed);
    line_count_.fetch_add(count, std::memory_order_relaxed);
    try {
      write_(lines_);
    } catch (...) {
      failures_.fetch_add(1, std::memory_order_relaxed);
    }
  }

  access_log_writer_metrics metrics() const noexcept {
    return {.lines = line_count_.load(std::memory_order_relaxed),
            .dropped = dropped_lines_.load(std::memory_order_relaxed),
            .failures = failures_.load(std::memory_order_relaxed)};
  }

 private:
  enum class state : std::uint8_t { idle, pending, running };

  struct alignas(cache_line_size) part {
    std::mutex mutex;  // guards the members below
    std::string lines;
    std::uint64_t count = 0;
  };

  part& part_of(const event_loop& loop) noexcept {
    return parts_[std::hash<const event_loop*>{}(&loop) / cache_line_size % parts_.size()];
  }

  bool append(part& target, std::string_view line) noexcept {
    // relaxed: the number guards no other data.
    const std::size_t pending_bytes =
        pending_bytes_.fetch_add(line.size(), std::memory_order_relaxed);
    if (pending_bytes + line.size() <= options_.max_pending) {
      try {
        const std::lock_guard lock(target.mutex);
        target.lines += line;
        ++target.count;
        return true;
        // NOLINTNEXTLINE(bugprone-empty-catch): the line is dropped
      } catch (const std::bad_alloc&) {
      }
    }
    pending_bytes_.fetch_sub(line.size(), std::memory_order_relaxed);
    return false;
  }

  void begin_call() {
    try {
      spawn(target_, run(shared_from_this()), {.name = "http::access_log_writer"});
    } catch (...) {
      // The call could not be spawned, so the next line has to spawn one.
      state_.store(state::idle, std::memory_order_release);
      throw;
    }
  }

  static task<> run(std::shared_ptr<core> self) {
    auto expected = state::running;
    do {
      // acq_rel: pairs with the exchange in add().
      self->state_.exchange(state::running, std::memory_order_acq_rel);
      self->write_pending();
      expected = state::running;
    } while (!self->state_.compare_exchange_strong(expected, state::idle, std::memory_order_acq_rel,
                                                   std::memory_order_acquire));
    co_return;
  }

  executor& target_;
  const access_log_writer_options options_;
  std::array<part, 16> parts_;
  gyre::detail::atomic<std::size_t> pending_bytes_{0};  // the bytes in all parts
  gyre::detail::atomic<state> state_{state::idle};
  gyre::detail::atomic<std::uint64_t> line_count_{0};
  gyre::detail::atomic<std::uint64_t> dropped_lines_{0};
  gyre::detail::atomic<std::uint64_t> failures_{0};
  std::mutex write_mutex_;  // guards the members below
  write_function write_;
  std::string lines_;
};

access_log_writer::access_log_writer(executor& target, write_function write,
                                     access_log_writer_options options)
    : core_(std::make_shared<core>(target, std::move(write), std::move(options))) {}

void access_log_writer::operator()(const access_record& record) const { core_->add(record); }
void access_log_writer::flush() const { core_->write_pending(); }
access_log_writer_metrics access_log_writer::metrics() const noexcept { return core_->metrics(); }

void write_metrics(metrics::exposition& output, const access_log_writer_metrics& counts) {
  const auto& [lines, dropped, failures] = counts;
  output.add_counter("gyre_access_log_lines_total", "Lines passed to the function.", lines);
  output.add_counter("gyre_access_log_lines_dropped_total", "Lines that were dropped.", dropped);
  output.add_counter("gyre_access_log_failures_total", "Calls of the function that have thrown.",
                     failures);
}

}  // namespace gyre::http
