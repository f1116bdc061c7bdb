// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/work/job.hpp>

#include <gyre/trace/detail/recorder.hpp>

#include <algorithm>
#include <utility>

namespace gyre::work {

namespace detail {

constinit const task_local<std::optional<attempt_token>> current_attempt;

}  // namespace detail

job::job(detail::taken_job row, detail::worker_id worker) noexcept
    : row_(std::move(row)), worker_(worker), begin_ticks_(trace::detail::begin_now()) {}

job::~job() = default;

void job::report_progress(double share, std::string_view note) {
  constexpr std::size_t max_note = 1000;
  // std::clamp() would return NaN for NaN.
  const double valid_share = share > 0.0 ? std::min(share, 1.0) : 0.0;
  noted_progress progress{static_cast<float>(valid_share), std::string(note.substr(0, max_note))};
  const std::scoped_lock lock(mutex_);
  progress_ = std::move(progress);
}

std::optional<job::noted_progress> job::take_progress() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(progress_, std::nullopt);
}

void job::request_stop(detail::stop_reason reason) noexcept {
  if (reason_ == detail::stop_reason::none) reason_ = reason;
  stop_.request_stop();
  if (shared_stop_ != nullptr) shared_stop_->request_stop();
}

}  // namespace gyre::work
