// One substep follows cpSpaceStep. First, positions move with the velocities of the previous
// substep. Then contacts are found, velocities start from zero (the peers' damping), and the solver
// runs. Where possible, coordinates go to Box2D in the block's frame: Box2D's numbers are float32,
// and in that frame they are small and the boxes' corners exact.
#include "pusht_physics.h"

#include <box2d/b2_collision.h>

#include <algorithm>
#include <cmath>

namespace dp_bench::pusht {
namespace {

// pymunk's body: mass 1, and twice the moment of the bar about the block's origin
constexpr double kInverseMass = 1.0;
constexpr double kInverseMoment = 1.0 / 3000.0;

// Chipmunk's defaults
constexpr double kSlop = 0.1;  // [px]
const double kBiasShare = 1.0 - std::pow(1.0 - 0.1, 60.0 * kSubstep);
constexpr int kSolverIterations = 10;

constexpr Box kBlockBounds = {{-60.0, -45.0}, {60.0, 75.0}};  // around the centre of gravity
constexpr double kBlockReach = 77.0;  // from the centre of gravity, rounded up

double Dot(const Point& a, const Point& b) { return a.x * b.x + a.y * b.y; }
double Cross(const Point& a, const Point& b) { return a.x * b.y - a.y * b.x; }

float ToFloat(double value) { return static_cast<float>(value); }

bool IsZero(const Pose& pose) { return pose.x == 0.0 && pose.y == 0.0 && pose.angle == 0.0; }

bool IsInside(const Point& p, const Box& box, double margin) {
  return p.x > box.low.x - margin && p.x < box.high.x + margin && p.y > box.low.y - margin &&
         p.y < box.high.y + margin;
}

Box AroundCog(const Box& box) {
  return {{box.low.x - kBlockCog.x, box.low.y - kBlockCog.y},
          {box.high.x - kBlockCog.x, box.high.y - kBlockCog.y}};
}

}  // namespace

PushtPhysics::PushtPhysics() {
  for (std::size_t i = 0; i < boxes_.size(); ++i) {
    const Box box = AroundCog(kBlockBoxes[i]);
    const b2Vec2 centre(ToFloat((box.low.x + box.high.x) / 2),
                        ToFloat((box.low.y + box.high.y) / 2));
    boxes_[i].SetAsBox(ToFloat((box.high.x - box.low.x) / 2), ToFloat((box.high.y - box.low.y) / 2),
                       centre, 0.0F);
    boxes_[i].m_radius = 0.0F;  // Box2D's default skin would be 0.01 px thick
  }
  const float low = ToFloat(kWallLow);
  const float high = ToFloat(kWallHigh);
  walls_[0].SetTwoSided({low, high}, {low, low});
  walls_[1].SetTwoSided({low, low}, {high, low});
  walls_[2].SetTwoSided({high, low}, {high, high});
  walls_[3].SetTwoSided({low, high}, {high, high});
  for (b2EdgeShape& wall : walls_) wall.m_radius = ToFloat(kWallRadius);
  agent_.m_radius = ToFloat(kAgentRadius);
  PlaceBlock();
}

void PushtPhysics::SetState(const PushtState& state) {
  state_ = state;
  n_contact_points_ = 0;
  PlaceBlock();
}

void PushtPhysics::StepTowards(const Point& target) {
  n_contact_points_ = 0;
  for (int i = 0; i < kSubstepsPerControl; ++i) {
    Point& velocity = state_.agent_velocity;
    velocity.x +=
        (kAgentStiffness * (target.x - state_.agent.x) - kAgentDamping * velocity.x) * kSubstep;
    velocity.y +=
        (kAgentStiffness * (target.y - state_.agent.y) - kAgentDamping * velocity.y) * kSubstep;
    Substep();
  }
}

void PushtPhysics::Substep() {
  state_.agent.x += state_.agent_velocity.x * kSubstep;
  state_.agent.y += state_.agent_velocity.y * kSubstep;
  if (!IsZero(state_.block_velocity)) MoveBlock();
  SlowDownBlock();

  // only contacts move the block
  n_contacts_ = 0;
  FindAgentContacts();
  if (near_wall_) FindWallContacts();
  n_contact_points_ += static_cast<int>(n_contacts_);
  // Deeper first. If the block is squeezed, contacts conflict and their order matters. This order
  // replays every recorded episode.
  std::sort(contacts_.begin(), contacts_.begin() + static_cast<std::ptrdiff_t>(n_contacts_),
            [](const Contact& a, const Contact& b) { return a.distance < b.distance; });
  if (n_contacts_ > 0) ResolveContacts();
}

void PushtPhysics::SlowDownBlock() {
  if (slide_ == 0.0) {
    state_.block_velocity = {wind_.x, wind_.y, 0.0};
    return;
  }
  state_.block_velocity.x *= slide_;
  state_.block_velocity.y *= slide_;
  state_.block_velocity.angle *= slide_;
  if (wind_.x == 0.0 && wind_.y == 0.0) return;
  state_.block_velocity.x += (1.0 - slide_) * wind_.x;
  state_.block_velocity.y += (1.0 - slide_) * wind_.y;
}

/// Derives the inputs of the contact search from the block's pose.
void PushtPhysics::PlaceBlock() {
  const Pose& block = state_.block;
  cog_ = Frame(block);
  cog_.origin = cog_.ToWorld(kBlockCog);
  constexpr double kFree = kWallRadius + kBlockReach;
  near_wall_ = std::min(cog_.origin.x, cog_.origin.y) < kWallLow + kFree ||
               std::max(cog_.origin.x, cog_.origin.y) > kWallHigh - kFree;
}

void PushtPhysics::MoveBlock() {
  // the block turns about its centre of gravity; the state has the position of its origin
  const Pose& velocity = state_.block_velocity;
  const Point cog = {cog_.origin.x + velocity.x * kSubstep, cog_.origin.y + velocity.y * kSubstep};
  state_.block.angle += velocity.angle * kSubstep;
  const Point from_origin = Frame(state_.block).Rotated(kBlockCog);
  state_.block.x = cog.x - from_origin.x;
  state_.block.y = cog.y - from_origin.y;
  PlaceBlock();
}

void PushtPhysics::FindAgentContacts() {
  const Point centre = cog_.ToLocal(state_.agent);
  if (!IsInside(centre, kBlockBounds, kAgentRadius)) return;

  b2Transform identity;
  identity.SetIdentity();
  agent_.m_p.Set(ToFloat(centre.x), ToFloat(centre.y));
  for (std::size_t i = 0; i < boxes_.size(); ++i) {
    const Box box = AroundCog(kBlockBoxes[i]);
    if (!IsInside(centre, box, kAgentRadius)) continue;
    b2Manifold manifold;
    b2CollidePolygonAndCircle(&manifold, &boxes_[i], identity, &agent_, identity);
    if (manifold.pointCount == 0) continue;

    // Box2D finds the touching face or corner; the numbers are computed again in float64
    Point outward = {manifold.localNormal.x, manifold.localNormal.y};
    const Point feature = {manifold.localPoint.x, manifold.localPoint.y};
    const Point from_feature = {centre.x - feature.x, centre.y - feature.y};
    const bool is_corner = (feature.x == box.low.x || feature.x == box.high.x) &&
                           (feature.y == box.low.y || feature.y == box.high.y);
    double distance = Dot(from_feature, outward);
    if (is_corner) {
      distance = std::sqrt(Dot(from_feature, from_feature));
      outward = {from_feature.x / distance, from_feature.y / distance};
    }
    const Point touching = {centre.x - distance * outward.x, centre.y - distance * outward.y};

    const Point outward_in_world = cog_.Rotated(outward);
    const Point normal = {-outward_in_world.x, -outward_in_world.y};
    AddContact(cog_.Rotated(touching), normal, distance - kAgentRadius,
               Dot(state_.agent_velocity, normal));
  }
}

void PushtPhysics::FindWallContacts() {
  b2Transform identity;
  identity.SetIdentity();
  b2Transform block;
  block.p.Set(ToFloat(cog_.origin.x), ToFloat(cog_.origin.y));
  block.q.s = ToFloat(cog_.sin);
  block.q.c = ToFloat(cog_.cos);
  for (const b2EdgeShape& wall : walls_) {
    for (const b2PolygonShape& box : boxes_) {
      b2Manifold manifold;
      b2CollideEdgeAndPolygon(&manifold, &wall, identity, &box, block);
      if (manifold.pointCount == 0) continue;
      b2WorldManifold world;
      world.Initialize(&manifold, identity, wall.m_radius, block, box.m_radius);
      const Point normal = {world.normal.x, world.normal.y};
      for (int i = 0; i < manifold.pointCount; ++i) {
        // Box2D's point is halfway between the two surfaces
        const double distance = world.separations[i];
        const Point arm = {world.points[i].x + 0.5 * distance * normal.x - cog_.origin.x,
                           world.points[i].y + 0.5 * distance * normal.y - cog_.origin.y};
        AddContact(arm, normal, distance, 0.0);
      }
    }
  }
}

void PushtPhysics::AddContact(const Point& arm, const Point& normal, double distance,
                              double approach_speed) {
  if (n_contacts_ == kMaxContacts) return;
  const double lever = Cross(arm, normal);
  contacts_[n_contacts_++] = {
      .arm = arm,
      .normal = normal,
      .distance = distance,
      .approach_speed = approach_speed,
      .effective_mass = 1.0 / (kInverseMass + kInverseMoment * lever * lever),
      .bias_speed = -kBiasShare * std::min(0.0, distance + kSlop) / kSubstep,
  };
}

/// Sequential impulses without friction or bounce. The bias velocity that separates overlapping
/// bodies is solved separately and moves the block once.
void PushtPhysics::ResolveContacts() {
  Pose velocity = state_.block_velocity;
  Pose bias;
  const auto normal_speed = [](const Pose& v, const Contact& contact) {
    return v.x * contact.normal.x + v.y * contact.normal.y +
           v.angle * Cross(contact.arm, contact.normal);
  };
  const auto push = [](Pose& v, const Contact& contact, double impulse) {
    v.x += impulse * kInverseMass * contact.normal.x;
    v.y += impulse * kInverseMass * contact.normal.y;
    v.angle += impulse * kInverseMoment * Cross(contact.arm, contact.normal);
  };
  // the first iteration solves a single contact
  const int iterations = n_contacts_ == 1 ? 1 : kSolverIterations;
  for (int iteration = 0; iteration < iterations; ++iteration) {
    for (std::size_t i = 0; i < n_contacts_; ++i) {
      Contact& contact = contacts_[i];
      const double missing_bias = contact.bias_speed - normal_speed(bias, contact);
      const double bias_impulse =
          std::max(0.0, contact.bias_impulse + missing_bias * contact.effective_mass);
      push(bias, contact, bias_impulse - contact.bias_impulse);
      contact.bias_impulse = bias_impulse;

      const double missing_speed = contact.approach_speed - normal_speed(velocity, contact);
      const double impulse =
          std::max(0.0, contact.impulse + missing_speed * contact.effective_mass);
      push(velocity, contact, impulse - contact.impulse);
      contact.impulse = impulse;
    }
  }
  state_.block_velocity = {velocity.x + bias.x, velocity.y + bias.y, velocity.angle + bias.angle};
}

}  // namespace dp_bench::pusht
