import { Screen } from '../../components/Screen'

export default function Runs() {
  return (
    <Screen title="Runs">
      <p className="hb-muted">All runs, with filters.</p>
    </Screen>
  )
}
