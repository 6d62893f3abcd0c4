#include "training/carried.h"

#include <cstring>
#include <span>

#include "base/check.h"
#include "kernels/elementwise/elementwise.h"

namespace sluice::training {
namespace {

using runtime::Context;
using runtime::DType;
using runtime::Tensor;

/// A tensor in float32 on the device.
struct InFloat32 {
  InFloat32(const Context& context, const runtime::Shape& shape)
      : memory(context.device(), sizeof(float) * static_cast<std::size_t>(shape.element_count())),
        tensor(memory.tensor(DType::kFloat32, shape)) {}

  runtime::Buffer memory;
  Tensor tensor;
};

/// The first rows of all tensors, behind the row of zeros, as bytes.
std::string packed_rows(const std::vector<CarriedTensor>& carried, std::int64_t rows) {
  std::string bytes;
  for (const CarriedTensor& one : carried) {
    const std::int64_t width = one.shape[2];
    for (std::int64_t layer = 0; layer < one.shape[0]; ++layer) {
      bytes.append(
          reinterpret_cast<const char*>(one.values.data() + (layer * one.shape[1] + 1) * width),
          static_cast<std::size_t>(rows * width) * sizeof(float));
    }
  }
  return bytes;
}

/// The inverse; other rows are those of `like`.
std::vector<CarriedTensor> unpacked_rows(const std::string& bytes,
                                         const std::vector<CarriedTensor>& like,
                                         std::int64_t rows) {
  std::vector<CarriedTensor> carried = like;
  std::size_t begin = 0;
  for (CarriedTensor& one : carried) {
    const std::int64_t width = one.shape[2];
    const std::size_t count = static_cast<std::size_t>(rows * width) * sizeof(float);
    for (std::int64_t layer = 0; layer < one.shape[0]; ++layer) {
      SLUICE_ASSERT(begin + count <= bytes.size());
      std::memcpy(one.values.data() + (layer * one.shape[1] + 1) * width, bytes.data() + begin,
                  count);
      begin += count;
    }
  }
  SLUICE_ASSERT(begin == bytes.size());
  return carried;
}

/// Rows that the tensors have room for, which are those of the whole batch.
std::int64_t rows_of(const std::vector<CarriedTensor>& carried) {
  return carried.empty() ? 0 : carried.front().shape[1] - 1;
}

/// Copies row `from_row` of all layers to row `to_row`; rows count from 0 behind the row of zeros.
void copy_row(const CarriedTensor& from, std::int64_t from_row, CarriedTensor& to,
              std::int64_t to_row) {
  const std::int64_t width = from.shape[2];
  for (std::int64_t layer = 0; layer < from.shape[0]; ++layer) {
    const auto place = [&](std::int64_t row) { return (layer * from.shape[1] + 1 + row) * width; };
    std::copy_n(from.values.begin() + place(from_row), width, to.values.begin() + place(to_row));
  }
}

}  // namespace

std::vector<CarriedTensor> download_carried(const Context& context, const models::Model& model) {
  std::vector<CarriedTensor> carried;
  for (const models::NamedTensor& one : model.carried_tensors()) {
    const InFloat32 wide(context, one.value.shape());
    kernels::elementwise::convert(context, one.value, wide.tensor);
    carried.push_back({one.name, one.value.shape(), context.download<float>(wide.tensor)});
  }
  return carried;
}

void upload_carried(const Context& context, const models::Model& model,
                    const std::vector<CarriedTensor>& carried) {
  const std::vector<models::NamedTensor> tensors = model.carried_tensors();
  SLUICE_ASSERT(tensors.size() == carried.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const InFloat32 wide(context, tensors[i].value.shape());
    context.upload<float>(wide.tensor, carried[i].values);
    kernels::elementwise::convert(context, wide.tensor, tensors[i].value);
    context.synchronize();
  }
}

std::vector<CarriedTensor> gather_carried(const Context& context, const models::Model& model,
                                          distributed::Communicator& ranks) {
  const std::vector<CarriedTensor> own = download_carried(context, model);
  const std::int64_t rows = rows_of(own), of_rank = (rows + ranks.size() - 1) / ranks.size();
  const std::vector<std::string> all = ranks.exchange(packed_rows(own, of_rank));
  std::vector<CarriedTensor> whole = own;
  for (std::int64_t rank = 0; rank < ranks.size(); ++rank) {
    const auto theirs = unpacked_rows(all[static_cast<std::size_t>(rank)], own, of_rank);
    for (std::size_t i = 0; i < whole.size(); ++i) {
      for (std::int64_t row = rank; row < rows; row += ranks.size()) {
        copy_row(theirs[i], row / ranks.size(), whole[i], row);
      }
    }
  }
  return whole;
}

void scatter_carried(const Context& context, const models::Model& model,
                     distributed::Communicator& ranks) {
  std::vector<CarriedTensor> own = download_carried(context, model);
  const std::int64_t rows = rows_of(own);
  const auto whole = unpacked_rows(from_first(ranks, packed_rows(own, rows)), own, rows);
  for (std::size_t i = 0; i < own.size(); ++i) {
    for (std::int64_t row = ranks.rank(); row < rows; row += ranks.size()) {
      copy_row(whole[i], row, own[i], row / ranks.size());
    }
  }
  upload_carried(context, model, own);
}

}  // namespace sluice::training
