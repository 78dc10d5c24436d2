import { Screen } from '../../components/Screen'

export default function Explain() {
  return (
    <Screen title="Explain">
      <p className="hb-muted">What became of one time, and why.</p>
    </Screen>
  )
}
