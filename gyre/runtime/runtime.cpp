// SPDX-License-Identifier: Apache-2.0
#include <gyre/runtime/runtime.hpp>

#include <gyre/base/available_parallelism.hpp>
#include <gyre/base/detail/duration_check.hpp>
#include <gyre/metrics/exposition.hpp>
#include <gyre/runtime/detail/init_signals.hpp>
#include <gyre/runtime/detail/observation.hpp>
#include <gyre/task/live_tasks.hpp>
#include <gyre/trace/dump.hpp>

#include <cstdio>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

namespace gyre {
namespace {

// Several threads may construct and destroy runtimes; the last runtime restores the signal's
// action.
std::mutex sigpipe_mutex;
int sigpipe_ignorers = 0;  // the number of runtimes that ignore SIGPIPE; sigpipe_mutex guards it

}  // namespace

runtime::ignored_sigpipe::ignored_sigpipe(bool is_enabled) noexcept {
  if (!is_enabled) return;
  const std::lock_guard lock(sigpipe_mutex);
  is_ignored_ = sigpipe_ignorers > 0 || detail::replace_default_action(SIGPIPE, SIG_IGN);
  if (is_ignored_) ++sigpipe_ignorers;
}

runtime::ignored_sigpipe::~ignored_sigpipe() {
  const std::lock_guard lock(sigpipe_mutex);
  if (is_ignored_ && --sigpipe_ignorers == 0) std::signal(SIGPIPE, SIG_DFL);
}

runtime::options runtime::with_defaults(options settings) {
  detail::require_not_negative(settings.drain_time, "gyre::runtime: drain_time");
  detail::require_not_negative(settings.force_time, "gyre::runtime: force_time");
  if (settings.loops == 0) settings.loops = available_parallelism();
  if (settings.pin_loops) settings.each_loop.cpus = detail::usable_cpus();
  return settings;
}

runtime::~runtime() {
  try {
    shutdown();
    end_threads();
  } catch (...) {
    detail::terminate_with(std::current_exception(), "left a runtime that was not run");
  }
}

std::unique_ptr<signal_set> runtime::take_signals() {
  if (options_.signals.empty()) return nullptr;
  return std::make_unique<signal_set>(control_loop_, options_.signals, [this](const signal_info&) {
    shutting_down() ? force_shutdown() : shutdown();
  });
}

void runtime::release_signals() noexcept {
  if (signals_ == nullptr) return;
  // This call comes before signals_.reset(), which unblocks the signals, so that pending ones end
  // the process.
  detail::let_signals_end_init(options_.signals);
  signals_.reset();
}

std::unique_ptr<signal_set> runtime::take_debug_signal() {
  if (options_.debug_signal == 0) return nullptr;
  record_live_tasks(true);
  return std::make_unique<signal_set>(
      control_loop_, std::span(&options_.debug_signal, 1), [](const signal_info&) {
        const std::string text = live_tasks_summary() + trace::dump_text();
        static_cast<void>(std::fputs(text.c_str(), stderr));
      });
}

void runtime::watch_threads() {
  watchdog_.emplace(std::move(*options_.watchdog));
  for (std::size_t i = 0; i < loops_.size(); ++i) {
    watchdog_->watch(loops_[i], "loop " + std::to_string(i));
  }
  watchdog_->watch(pool_, "pool");
}

void runtime::observe() {
  observation_ = std::make_shared<detail::observation>(loops_, pool_);
  if (options_.slow_dumps) slow_dumps_.emplace(std::move(*options_.slow_dumps));
  if (options_.inspect) observation_->show(options_.inspect);
}

int runtime::run_main(task<int> body) {
  if (std::exchange(was_run_called_, true))
    throw std::logic_error("gyre::runtime: it can be run only once");
  int code = 0;
  detail::shutdown_sequence::counted_task counted_main_task(sequence_);
  sequence_.advance();  // the main task must see earlier requests
  gyre::spawn(loops_[0],
              run_task(*this, std::move(counted_main_task), run_body(std::move(body), code)),
              {.stop = stop_token(), .name = "main task"});
  end_threads();
  return code;
}

task<> runtime::run_body(task<int> body, int& code) {
  try {
    code = co_await std::move(body);
  } catch (...) {
    const std::exception_ptr error = detail::current_exception_outside();
    if (!shutting_down() || !detail::is_cancelled(error)) sequence_.fail(error);
  }
  shutdown();
}

void runtime::report_error(std::exception_ptr error) noexcept {
  if (shutting_down() && detail::is_cancelled(error)) return;
  if (options_.on_exception) {
    options_.on_exception(std::move(error));
  } else {
    sequence_.fail(std::move(error));
  }
}

// A hook is requested to stop only when `force` begins, so its cancellation is not an error.
void runtime::report_hook_error(const std::exception_ptr& error) noexcept {
  if (!detail::is_cancelled(error)) sequence_.fail(error);
}

void runtime::end_threads() {
  if (std::exchange(was_end_called_, true)) return;
  sequence_.run();
  release_signals();
  debug_signal_.reset();
  watchdog_.reset();
  slow_dumps_.reset();
  observation_->hide();
  // stop() is posted, so that it runs after all tasks that were posted before.
  for (std::size_t i = 0; i < loops_.size(); ++i) {
    loop& target = loops_[i];
    target.post([&target] { target.stop(); });
  }
  loops_.join();
  if (sequence_.is_forced()) {
    pool_.stop();
  } else {
    pool_.drain();
  }
  if (const std::exception_ptr error = sequence_.error()) std::rethrow_exception(error);
}

runtime_metrics runtime::metrics() {
  runtime_metrics sum{.loops = {}, .pool = pool_.metrics(), .tasks = sequence_.count_tasks()};
  for (std::size_t i = 0; i < loops_.size(); ++i) sum.loops += loops_[i].metrics();
  return sum;
}

metrics::registry& runtime::registry() noexcept { return observation_->registry(); }

void write_metrics(metrics::exposition& output, const runtime_metrics& counts) {
  const auto& [loops, pool, tasks] = counts;
  write_metrics(output, loops);
  write_metrics(output, pool);
  output.add_gauge("gyre_runtime_tasks", "Tasks that were spawned and have not ended.", tasks);
}

}  // namespace gyre
