// See onnx.h. One function per operator of LibTorch that the policies use.
#include "graph/onnx.h"

#include <fmt/format.h>
#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/errors.h"
#include "graph/onnx_model.h"

namespace dp_bench::graph {
namespace {

namespace jit = torch::jit;
using torch::Tensor;
using Sizes = std::vector<std::optional<std::int64_t>>;  // none: depends on the batch
using Ints = std::vector<std::int64_t>;

// A number in a shape: a constant, or the name of a tensor [1] that is computed from the batch.
struct Dim {
  std::int64_t value = 0;
  std::string computed;
};

// The weights of a resize of one axis with antialiasing, [out, in]. The images are two columns
// wide, because LibTorch gets those of one column wrong.
Tensor ResizeWeights(std::int64_t in, std::int64_t out) {
  const Tensor unit = torch::eye(in).view({in, 1, in, 1}).repeat({1, 1, 1, 2});
  return at::_upsample_bilinear2d_aa(unit, {out, 2}, /*align_corners=*/false)
      .select(3, 0)
      .view({in, out})
      .t();
}

class Converter {
 public:
  Converter(const TracedGraph& traced, std::string output)
      : traced_(traced), output_(std::move(output)) {}

  std::string Convert() {
    const std::shared_ptr<jit::Graph> graph = traced_.module.get_method("forward").graph();
    for (std::size_t i = 0; i < traced_.inputs.size(); ++i) {
      const GraphInput& input = traced_.inputs[i];
      Sizes shape = {std::nullopt};
      shape.insert(shape.end(), input.shape.begin(), input.shape.end());
      model_.AddInput(input.name, input.type, shape);
      names_[graph->inputs()[i + 1]] = input.name;
    }
    for (const jit::Node* node : graph->nodes()) {
      const std::string op = node->kind().toQualString();
      if (op == "prim::Constant" || op == "prim::ListConstruct" || op == "prim::GetAttr") continue;
      if (op == "aten::size") {
        computed_[node->output()] =
            Add("Shape", {In(*node, 0)}, {{"start", Int(*node, 1)}, {"end", Int(*node, 1) + 1}});
        continue;
      }
      if (op == "aten::mul" && node->output()->type()->kind() == c10::TypeKind::IntType) {
        computed_[node->output()] =
            Add("Mul", {computed_.at(node->input(0)), model_.AddInts({Int(*node, 1)})});
        continue;
      }
      const auto handler = Handlers().find(op);
      if (handler == Handlers().end()) Refuse(*node, "has no translation");
      names_[node->output()] = (this->*handler->second)(*node);
    }
    const jit::Value& result = *graph->outputs().at(0);
    model_.AddNode("Identity", {NameOf(result)}, {}, output_);
    model_.AddOutput(output_, TypeOf(result), SizesOf(result));
    return model_.Take(traced_.module.type()->name()->name());
  }

 private:
  using Handler = std::string (Converter::*)(const jit::Node&);

  static const std::map<std::string, Handler>& Handlers() {
    static const std::map<std::string, Handler> handlers = {
        {"aten::view_as", &Converter::OnSame},
        {"aten::add", &Converter::OnAdd},
        {"aten::mul", &Converter::OnMul},
        {"aten::div", &Converter::OnDiv},
        {"aten::addcmul", &Converter::OnAddcmul},
        {"aten::clamp", &Converter::OnClamp},
        {"aten::mish", &Converter::OnUnary},
        {"aten::relu", &Converter::OnUnary},
        {"aten::sin", &Converter::OnUnary},
        {"aten::cos", &Converter::OnUnary},
        {"aten::gelu", &Converter::OnGelu},
        {"aten::softmax", &Converter::OnSoftmax},
        {"aten::to", &Converter::OnCast},
        {"aten::matmul", &Converter::OnMatmul},
        {"aten::addmm", &Converter::OnAddmm},
        {"aten::linear", &Converter::OnLinear},
        {"aten::scaled_dot_product_attention", &Converter::OnAttention},
        {"aten::group_norm", &Converter::OnGroupNorm},
        {"aten::layer_norm", &Converter::OnLayerNorm},
        {"aten::batch_norm", &Converter::OnBatchNorm},
        {"aten::_convolution", &Converter::OnConvolution},
        {"aten::max_pool2d", &Converter::OnMaxPool},
        {"aten::upsample_nearest2d", &Converter::OnNearest},
        {"aten::upsample_bilinear2d", &Converter::OnBilinear},
        {"aten::_upsample_bilinear2d_aa", &Converter::OnAntialiased},
        {"aten::t", &Converter::OnT},
        {"aten::transpose", &Converter::OnTranspose},
        {"aten::view", &Converter::OnView},
        {"aten::reshape", &Converter::OnView},
        {"aten::flatten", &Converter::OnToSizesOfResult},
        {"aten::unflatten", &Converter::OnToSizesOfResult},
        {"aten::unsqueeze", &Converter::OnUnsqueeze},
        {"aten::cat", &Converter::OnCat},
        {"aten::narrow", &Converter::OnNarrow},
        {"aten::new_zeros", &Converter::OnNewZeros},
        {"aten::constant_pad_nd", &Converter::OnPad},
    };
    return handlers;
  }

  // inputs of a node

  const std::string& In(const jit::Node& node, std::size_t i) { return NameOf(*node.input(i)); }

  [[noreturn]] static void Refuse(const jit::Node& node, const std::string& why) {
    throw ConfigError("ONNX export: {} {}; --format torchscript has no such limit",
                      node.kind().toQualString(), why);
  }

  static bool IsNone(const jit::Node& node, std::size_t i) {
    return node.input(i)->type()->kind() == c10::TypeKind::NoneType;
  }

  static std::int64_t Int(const jit::Node& node, std::size_t i) {
    const auto constant = jit::toIValue(node.input(i));
    if (!constant || !constant->isInt()) Refuse(node, fmt::format("needs a constant input {}", i));
    return constant->toInt();
  }

  static double Number(const jit::Node& node, std::size_t i) {
    const auto constant = jit::toIValue(node.input(i));
    if (!constant || !constant->isScalar())
      Refuse(node, fmt::format("needs a number as input {}", i));
    return constant->toScalar().toDouble();
  }

  Ints IntList(const jit::Node& node, std::size_t i) {
    Ints values;
    for (const Dim& dim : Dims(node, i)) {
      if (!dim.computed.empty()) Refuse(node, "has a size that depends on the batch");
      values.push_back(dim.value);
    }
    return values;
  }

  // A number for rows and columns, or one for both.
  Ints BothAxes(const jit::Node& node, std::size_t i) {
    Ints values = IntList(node, i);
    if (values.size() == 1) values.push_back(values[0]);
    return values;
  }

  std::vector<Dim> Dims(const jit::Node& node, std::size_t i) {
    const jit::Value& list = *node.input(i);
    std::vector<Dim> dims;
    if (const auto constant = jit::toIValue(&list)) {
      for (const std::int64_t value : constant->toIntVector()) dims.push_back({.value = value});
      return dims;
    }
    for (const jit::Value* element : list.node()->inputs()) dims.push_back(DimOf(*element));
    return dims;
  }

  Dim DimOf(const jit::Value& value) {
    if (const auto constant = jit::toIValue(&value)) return {.value = constant->toInt()};
    return {.computed = computed_.at(&value)};
  }

  const std::string& NameOf(const jit::Value& value) {
    std::string& name = names_[&value];
    if (!name.empty()) return name;
    const jit::Node& node = *value.node();
    Tensor tensor;
    if (node.kind() == c10::prim::GetAttr) {
      tensor = traced_.module.attr(node.s(c10::attr::name)).toTensor();
    } else if (const auto constant = jit::toIValue(&value); constant && constant->isTensor()) {
      tensor = constant->toTensor();
    } else {
      Refuse(node, "gives no tensor");
    }
    // numbers that LibTorch made tensors of
    if (tensor.scalar_type() == torch::kFloat64) tensor = tensor.to(torch::kFloat32);
    name = model_.AddTensor(tensor);
    weights_[name] = tensor;
    return name;
  }

  Sizes SizesOf(const jit::Value& value) const {
    const auto found = names_.find(&value);
    if (found != names_.end() && weights_.contains(found->second)) {
      const Tensor& weight = weights_.at(found->second);
      return {weight.sizes().begin(), weight.sizes().end()};
    }
    const auto type = value.type()->cast<c10::TensorType>();
    if (type && type->dim()) return *type->sizes().sizes();
    Refuse(*value.node(), "has a result of unknown rank");
  }

  torch::ScalarType TypeOf(const jit::Value& value) const {
    const auto type = value.type()->cast<c10::TensorType>();
    if (type && type->scalarType()) return *type->scalarType();
    return torch::kFloat32;  // weights
  }

  // An axis of a tensor of `rank` dimensions, counted from the first.
  static std::int64_t Axis(const jit::Node& node, std::size_t i, std::int64_t rank) {
    const std::int64_t axis = Int(node, i);
    return axis < 0 ? axis + rank : axis;
  }

  std::int64_t Rank(const jit::Value& value) const { return std::ssize(SizesOf(value)); }

  // new nodes

  std::string Add(const std::string& op, const std::vector<std::string>& inputs,
                  const OnnxAttributes& attributes = {}) {
    return model_.AddNode(op, inputs, attributes);
  }

  std::string CastTo(const std::string& name, torch::ScalarType from, torch::ScalarType to) {
    if (from == to) return name;
    return Add("Cast", {name}, {{"to", OnnxModel::ElementType(to)}});
  }

  // An operand of a binary operator, tensor or number, in the type of the result.
  std::string Operand(const jit::Node& node, std::size_t i) {
    const torch::ScalarType type = TypeOf(*node.output());
    const auto constant = jit::toIValue(node.input(i));
    if (constant && constant->isScalar()) {
      return model_.AddTensor(torch::tensor(constant->toScalar().toDouble()).to(type));
    }
    return CastTo(In(node, i), TypeOf(*node.input(i)), type);
  }

  std::string ShapeTensor(const std::vector<Dim>& dims) {
    if (std::ranges::all_of(dims, [](const Dim& dim) { return dim.computed.empty(); })) {
      Ints values;
      for (const Dim& dim : dims) values.push_back(dim.value);
      return model_.AddInts(values);
    }
    std::vector<std::string> parts;
    for (const Dim& dim : dims) {
      parts.push_back(dim.computed.empty() ? model_.AddInts({dim.value}) : dim.computed);
    }
    return Add("Concat", parts, {{"axis", std::int64_t{0}}});
  }

  std::string Scaled(const std::string& x, double factor) {
    return factor == 1.0 ? x : Add("Mul", {x, model_.AddFloat(factor)});
  }

  // x, of `rank` dimensions, with two of them swapped.
  std::string Swapped(const std::string& x, std::int64_t rank, std::int64_t a, std::int64_t b) {
    Ints perm(static_cast<std::size_t>(rank));
    std::iota(perm.begin(), perm.end(), 0);
    std::swap(perm.at(static_cast<std::size_t>(a)), perm.at(static_cast<std::size_t>(b)));
    return Add("Transpose", {x}, {{"perm", perm}});
  }

  std::string Resized(const jit::Node& node, OnnxAttributes attributes) {
    attributes["axes"] = Ints{2, 3};
    return Add("Resize", {In(node, 0), "", "", model_.AddInts(IntList(node, 1))}, attributes);
  }

  std::string Binary(const jit::Node& node, const std::string& op) {
    return Add(op, {Operand(node, 0), Operand(node, 1)});
  }

  // operators

  std::string OnSame(const jit::Node& node) { return In(node, 0); }
  std::string OnMul(const jit::Node& node) { return Binary(node, "Mul"); }
  std::string OnDiv(const jit::Node& node) { return Binary(node, "Div"); }
  std::string OnMatmul(const jit::Node& node) { return Add("MatMul", {In(node, 0), In(node, 1)}); }

  // self and other, times alpha
  std::string OnAdd(const jit::Node& node) {
    return Add("Add", {Operand(node, 0), Scaled(Operand(node, 1), Number(node, 2))});
  }

  std::string OnAddcmul(const jit::Node& node) {
    const std::string product = Add("Mul", {Operand(node, 1), Operand(node, 2)});
    return Add("Add", {Operand(node, 0), Scaled(product, Number(node, 3))});
  }

  std::string OnClamp(const jit::Node& node) {
    const std::string low = IsNone(node, 1) ? "" : model_.AddFloat(Number(node, 1));
    const std::string high = IsNone(node, 2) ? "" : model_.AddFloat(Number(node, 2));
    return Add("Clip", {In(node, 0), low, high});
  }

  std::string OnUnary(const jit::Node& node) {
    static const std::map<std::string, std::string> kNames = {
        {"aten::mish", "Mish"}, {"aten::relu", "Relu"}, {"aten::sin", "Sin"}, {"aten::cos", "Cos"}};
    return Add(kNames.at(node.kind().toQualString()), {In(node, 0)});
  }

  std::string OnGelu(const jit::Node& node) {
    return Add("Gelu", {In(node, 0)},
               {{"approximate", jit::toIValue(node.input(1))->toStringRef()}});
  }

  std::string OnSoftmax(const jit::Node& node) {
    const std::string& x = In(node, 0);
    return Add("Softmax", {x}, {{"axis", Axis(node, 1, Rank(*node.input(0)))}});
  }

  std::string OnCast(const jit::Node& node) {
    return CastTo(In(node, 0), TypeOf(*node.input(0)), TypeOf(*node.output()));
  }

  std::string OnAddmm(const jit::Node& node) {
    const std::string product = Add("MatMul", {In(node, 1), In(node, 2)});
    return Add("Add", {Scaled(In(node, 0), Number(node, 3)), Scaled(product, Number(node, 4))});
  }

  std::string OnLinear(const jit::Node& node) {
    const std::string transposed = Swapped(In(node, 1), 2, 0, 1);
    const std::string product = Add("MatMul", {In(node, 0), transposed});
    return IsNone(node, 2) ? product : Add("Add", {product, In(node, 2)});
  }

  // softmax(q k^T scale + mask) v, heads as a dimension before the tokens
  std::string OnAttention(const jit::Node& node) {
    if (Number(node, 4) != 0.0 || jit::toIValue(node.input(5))->toBool()) {
      Refuse(node, "with dropout or a causal flag has no translation");
    }
    const Sizes sizes = SizesOf(*node.input(0));
    const double scale =
        IsNone(node, 6) ? 1.0 / std::sqrt(static_cast<double>(*sizes.back())) : Number(node, 6);
    const std::int64_t rank = std::ssize(sizes);
    const std::string keys = Swapped(In(node, 1), rank, rank - 2, rank - 1);
    std::string scores = Add("MatMul", {Scaled(In(node, 0), scale), keys});
    if (!IsNone(node, 3)) scores = Add("Add", {scores, In(node, 3)});
    const std::string weights = Add("Softmax", {scores}, {{"axis", std::int64_t{-1}}});
    return Add("MatMul", {weights, In(node, 2)});
  }

  // The groups as channels of an instance norm, then scale and shift per channel.
  std::string OnGroupNorm(const jit::Node& node) {
    const std::int64_t n_groups = Int(node, 1);
    const std::string& x = In(node, 0);
    const std::string grouped = Add("Reshape", {x, model_.AddInts({0, n_groups, -1})});
    const std::string normed = Add("InstanceNormalization",
                                   {grouped, model_.AddTensor(torch::ones({n_groups})),
                                    model_.AddTensor(torch::zeros({n_groups}))},
                                   {{"epsilon", static_cast<float>(Number(node, 4))}});
    std::string y = Add("Reshape", {normed, Add("Shape", {x})});
    Ints per_channel(static_cast<std::size_t>(Rank(*node.input(0)) - 1), 1);
    per_channel[0] = -1;
    const std::string shape = model_.AddInts(per_channel);
    if (!IsNone(node, 2)) y = Add("Mul", {y, Add("Reshape", {In(node, 2), shape})});
    if (!IsNone(node, 3)) y = Add("Add", {y, Add("Reshape", {In(node, 3), shape})});
    return y;
  }

  std::string OnLayerNorm(const jit::Node& node) {
    const Ints normalized = IntList(node, 1);
    return Add(
        "LayerNormalization", {In(node, 0), In(node, 2), IsNone(node, 3) ? "" : In(node, 3)},
        {{"axis", -std::ssize(normalized)}, {"epsilon", static_cast<float>(Number(node, 4))}});
  }

  std::string OnBatchNorm(const jit::Node& node) {
    return Add("BatchNormalization",
               {In(node, 0), In(node, 1), In(node, 2), In(node, 3), In(node, 4)},
               {{"epsilon", static_cast<float>(Number(node, 7))}});
  }

  std::string OnConvolution(const jit::Node& node) {
    const Ints padding = IntList(node, 4);
    Ints both_sides = padding;
    both_sides.insert(both_sides.end(), padding.begin(), padding.end());
    OnnxAttributes attributes = {{"strides", IntList(node, 3)},
                                 {"pads", both_sides},
                                 {"dilations", IntList(node, 5)},
                                 {"group", Int(node, 8)}};
    const bool is_transposed = jit::toIValue(node.input(6))->toBool();
    if (is_transposed) attributes["output_padding"] = IntList(node, 7);
    std::vector<std::string> inputs = {In(node, 0), In(node, 1)};
    if (!IsNone(node, 2)) inputs.push_back(In(node, 2));
    return Add(is_transposed ? "ConvTranspose" : "Conv", inputs, attributes);
  }

  std::string OnMaxPool(const jit::Node& node) {
    const Ints padding = BothAxes(node, 3);
    return Add("MaxPool", {In(node, 0)},
               {{"kernel_shape", BothAxes(node, 1)},
                {"strides", BothAxes(node, 2)},
                {"pads", Ints{padding[0], padding[1], padding[0], padding[1]}},
                {"dilations", BothAxes(node, 4)}});
  }

  std::string OnNearest(const jit::Node& node) {
    return Resized(node, {{"mode", std::string("nearest")},
                          {"coordinate_transformation_mode", std::string("asymmetric")},
                          {"nearest_mode", std::string("floor")}});
  }

  std::string OnBilinear(const jit::Node& node) {
    return Resized(node, {{"mode", std::string("linear")},
                          {"coordinate_transformation_mode", std::string("half_pixel")}});
  }

  // As two matrix products, because some runtimes ignore the flag antialias of Resize.
  std::string OnAntialiased(const jit::Node& node) {
    const std::string& x = In(node, 0);
    const Sizes sizes = SizesOf(*node.input(0));
    const Ints out = IntList(node, 1);
    const std::string rows = model_.AddTensor(ResizeWeights(*sizes[2], out[0]));
    const std::string columns = model_.AddTensor(ResizeWeights(*sizes[3], out[1]).t());
    return Add("MatMul", {Add("MatMul", {rows, x}), columns});
  }

  std::string OnT(const jit::Node& node) { return Swapped(In(node, 0), 2, 0, 1); }

  std::string OnTranspose(const jit::Node& node) {
    const std::string& x = In(node, 0);
    const std::int64_t rank = Rank(*node.input(0));
    return Swapped(x, rank, Axis(node, 1, rank), Axis(node, 2, rank));
  }

  std::string OnView(const jit::Node& node) {
    return Add("Reshape", {In(node, 0), ShapeTensor(Dims(node, 1))});
  }

  std::string OnToSizesOfResult(const jit::Node& node) {
    Ints shape;
    for (const auto& size : SizesOf(*node.output())) shape.push_back(size.value_or(-1));
    if (std::ranges::count(shape, -1) > 1) {
      Refuse(node, "has a result with two sizes that depend on the batch");
    }
    return Add("Reshape", {In(node, 0), model_.AddInts(shape)});
  }

  std::string OnUnsqueeze(const jit::Node& node) {
    const std::string& x = In(node, 0);
    return Add("Unsqueeze", {x, model_.AddInts({Axis(node, 1, Rank(*node.input(0)) + 1)})});
  }

  std::string OnCat(const jit::Node& node) {
    const torch::ScalarType type = TypeOf(*node.output());
    std::vector<std::string> parts;
    for (const jit::Value* part : node.input(0)->node()->inputs()) {
      const std::string name = NameOf(*part);
      const Sizes sizes = SizesOf(*part);
      if (std::ranges::find(sizes, std::optional<std::int64_t>(0)) != sizes.end()) continue;
      parts.push_back(CastTo(name, TypeOf(*part), type));
    }
    return Add("Concat", parts, {{"axis", Axis(node, 1, Rank(*node.output()))}});
  }

  std::string OnNarrow(const jit::Node& node) {
    const std::string& x = In(node, 0);
    return Add("Slice",
               {x, model_.AddInts({Int(node, 2)}), model_.AddInts({Int(node, 2) + Int(node, 3)}),
                model_.AddInts({Axis(node, 1, Rank(*node.input(0)))})});
  }

  std::string OnNewZeros(const jit::Node& node) {
    return Add("Expand", {model_.AddFloat(0.0), ShapeTensor(Dims(node, 1))});
  }

  // LibTorch lists pairs from the last dimension on, ONNX all beginnings and then all ends.
  std::string OnPad(const jit::Node& node) {
    const std::string& x = In(node, 0);
    const Ints pairs = IntList(node, 1);
    const auto rank = static_cast<std::size_t>(Rank(*node.input(0)));
    Ints pads(2 * rank, 0);
    for (std::size_t i = 0; i < pairs.size() / 2; ++i) {
      pads[rank - 1 - i] = pairs[2 * i];
      pads[2 * rank - 1 - i] = pairs[2 * i + 1];
    }
    return Add("Pad", {x, model_.AddInts(pads), model_.AddFloat(Number(node, 2))});
  }

  const TracedGraph& traced_;
  std::string output_;
  OnnxModel model_;
  std::map<const jit::Value*, std::string> names_;
  std::map<const jit::Value*, std::string> computed_;  // integers that depend on the batch, [1]
  std::map<std::string, Tensor> weights_;              // by name in the model
};

}  // namespace

std::string ToOnnx(const TracedGraph& graph, const std::string& output) {
  return Converter(graph, output).Convert();
}

}  // namespace dp_bench::graph
