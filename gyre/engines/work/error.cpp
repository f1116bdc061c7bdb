// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/work/error.hpp>

#include <gyre/base/detail/enum_category.hpp>

namespace gyre::work {
namespace {

const char* message_of(errc code) noexcept {
  switch (code) {
    case errc::queue_full: return "too many jobs of the kind wait";
    case errc::schema_missing: return "the database lacks the schema of jobs: call work::migrate()";
    case errc::attempt_taken_over: return "another worker has the job, or it has ended";
    case errc::unknown_job: return "there is no such job, or its row was removed";
    case errc::job_dead: return "the job failed for good";
    case errc::job_cancelled: return "the job was cancelled";
    case errc::unknown_batch: return "there is no such batch, or its row was removed";
  }
  return "unknown error of jobs";
}

std::errc condition_of(errc code) noexcept {
  switch (code) {
    case errc::queue_full: return std::errc::resource_unavailable_try_again;
    case errc::job_cancelled: return std::errc::operation_canceled;
    case errc::schema_missing:
    case errc::attempt_taken_over:
    case errc::unknown_job:
    case errc::job_dead:
    case errc::unknown_batch: break;
  }
  return {};
}

}  // namespace

const std::error_category& work_category() noexcept {
  static const gyre::detail::enum_category<errc> category("gyre.work", message_of, condition_of);
  return category;
}

std::error_code make_error_code(errc code) noexcept {
  return {static_cast<int>(code), work_category()};
}

}  // namespace gyre::work
