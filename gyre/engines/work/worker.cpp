// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/work/worker.hpp>

#include <gyre/engines/work/detail/worker_core.hpp>

namespace gyre::work {

worker::worker(postgres::client& db, worker_options options)
    : core_(std::make_unique<detail::worker_core>(db, std::move(options))) {}

worker::~worker() = default;

task<> worker::run() { return core_->run(); }

void worker::drain() noexcept { core_->drain(); }

worker_metrics worker::metrics() const { return core_->metrics(); }

void worker::add(std::string kind, detail::type_erased_handler handler,
                 const handler_options& options) {
  core_->add(std::move(kind), std::move(handler), options);
}

void worker::add(std::string kind, detail::type_erased_transaction_handler handler,
                 const transaction_handler_options& options) {
  core_->add(std::move(kind), std::move(handler), options);
}

}  // namespace gyre::work
