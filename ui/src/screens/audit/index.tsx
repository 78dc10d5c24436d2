import { Screen } from '../../components/Screen'

export default function Audit() {
  return (
    <Screen title="Audit">
      <p className="hb-muted">Who changed what.</p>
    </Screen>
  )
}
