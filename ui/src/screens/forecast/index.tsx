import { Screen } from '../../components/Screen'

export default function Forecast() {
  return (
    <Screen title="Forecast">
      <p className="hb-muted">The load of the coming week by hour.</p>
    </Screen>
  )
}
