// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/detail/owned_connection.hpp>

namespace gyre::postgres::detail {

owned_connection::owned_connection(std::shared_ptr<connection_core> core,
                                   std::shared_ptr<connection_list> list)
    : core_(std::move(core)), list_(std::move(list)) {
  list_->push_back(core_);
}

owned_connection::~owned_connection() {
  std::erase(*list_, core_);
  core_->close();
}

bool owned_connection::is_reusable() const {
  return is_connected() && core_->in_flight() == 0 && !core_->is_fenced() &&
         core_->status() == transaction_status::idle;
}

}  // namespace gyre::postgres::detail
