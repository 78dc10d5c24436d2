import { Screen } from '../../components/Screen'

export default function Nodes() {
  return (
    <Screen title="Nodes">
      <p className="hb-muted">The live nodes, what they serve and what they run.</p>
    </Screen>
  )
}
