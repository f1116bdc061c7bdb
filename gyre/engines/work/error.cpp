// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/work/error.hpp>

#include <string>

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

class category final : public std::error_category {
 public:
  const char* name() const noexcept override { return "gyre.work"; }
  std::string message(int code) const override { return message_of(static_cast<errc>(code)); }
  std::error_condition default_error_condition(int code) const noexcept override {
    switch (static_cast<errc>(code)) {
      case errc::queue_full: return std::errc::resource_unavailable_try_again;
      case errc::job_cancelled: return std::errc::operation_canceled;
      case errc::schema_missing:
      case errc::attempt_taken_over:
      case errc::unknown_job:
      case errc::job_dead:
      case errc::unknown_batch: break;
    }
    return {code, *this};
  }
};

}  // namespace

const std::error_category& work_category() noexcept {
  static const category instance;
  return instance;
}

std::error_code make_error_code(errc code) noexcept {
  return {static_cast<int>(code), work_category()};
}

}  // namespace gyre::work
